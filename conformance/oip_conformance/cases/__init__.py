"""The test cases by topic.

Importing this package registers them. `repository` runs last, because it unloads models.
"""

# isort: skip_file
from . import health, metadata, inference, errors, binary, generate, text_generation, v2_streams
from . import statistics
from . import rpc_core, rpc_inference, rpc_errors, rpc_streams, repository

__all__ = [
    "health",
    "metadata",
    "inference",
    "errors",
    "binary",
    "generate",
    "text_generation",
    "v2_streams",
    "statistics",
    "rpc_core",
    "rpc_inference",
    "rpc_errors",
    "rpc_streams",
    "repository",
]
