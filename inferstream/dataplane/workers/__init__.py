"""Execution of models in worker processes."""
