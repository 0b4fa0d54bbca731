"""Language models run by an inference engine in another process, such as vLLM, over its gRPC protocol."""

from .model import Engine

__all__ = ["Engine"]
