"""The Ollama API under `/api`."""
