"""The cases, by what they ask. Importing this registers all; `repository` unloads models, and is the last."""

# isort: skip_file
from . import health, metadata, inference, errors, binary, generate, v2_streams, statistics
from . import rpc_core, rpc_inference, rpc_errors, rpc_streams, repository

__all__ = [
    "health",
    "metadata",
    "inference",
    "errors",
    "binary",
    "generate",
    "v2_streams",
    "statistics",
    "rpc_core",
    "rpc_inference",
    "rpc_errors",
    "rpc_streams",
    "repository",
]
