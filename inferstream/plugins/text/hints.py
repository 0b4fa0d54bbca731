"""An example chat request for the command line."""

from typing import Any


def chat(model: str, words: str) -> tuple[str, dict[str, Any]]:
    """Return the path and body of a chat with a model that generates text."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": words}]}
    return "/v1/chat/completions", body
