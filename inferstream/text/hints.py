"""An example of a chat, for the terminal."""

from typing import Any


def chat(model: str, words: str) -> tuple[str, dict[str, Any]]:
    """Path and body of a chat with a model that makes texts."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": words}]}
    return "/v1/chat/completions", body
