"""Dialects of ModelStreamInfer, one module each."""
