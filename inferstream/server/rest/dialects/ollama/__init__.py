"""Ollama's dialect, under `/api`."""
