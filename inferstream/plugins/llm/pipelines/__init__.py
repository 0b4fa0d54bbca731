"""Transformers pipelines: settings, tasks, and conversion between tensors and arguments."""
