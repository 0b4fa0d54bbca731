"""Causal language models run by transformers. PyTorch is imported when a model loads."""

from .causal_lm import CausalLM

__all__ = ["CausalLM"]
