"""Language models of Hugging Face's transformers. torch is imported when a model loads."""

from .causal_lm import CausalLM

__all__ = ["CausalLM"]
