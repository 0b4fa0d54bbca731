"""Pipelines of transformers: their settings, their tasks, and how tensors become their arguments."""
