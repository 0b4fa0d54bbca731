"""Language models in GGUF files, run by llama.cpp. The library is imported when a model loads."""

from .model import LlamaCppModel

__all__ = ["LlamaCppModel"]
