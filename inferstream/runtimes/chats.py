"""Reads the messages, tools and template options of a request to a language model."""

from collections.abc import Mapping
from typing import Any

import orjson

from ..text.chat import RESERVED
from ..text.inputs import MESSAGES, TEMPLATE_OPTIONS, TOOLS
from .sampling import refused


def read_messages(text: str) -> list[dict[str, Any]]:
    """The messages, each with one text as its content. Raises InvalidRequest."""
    messages = [_plain(message) for message in _list_of(MESSAGES, text)]
    if not messages:
        raise refused(MESSAGES, "messages is empty")
    return messages


def read_options(texts: Mapping[str, str]) -> dict[str, Any]:
    """The variables of a chat template by the inputs of a request. Raises InvalidRequest."""
    tools = {TOOLS: _list_of(TOOLS, texts[TOOLS])} if TOOLS in texts else {}
    if TEMPLATE_OPTIONS not in texts:
        return tools
    options = _loaded(texts[TEMPLATE_OPTIONS])
    if not isinstance(options, dict):
        raise refused(TEMPLATE_OPTIONS, f"{TEMPLATE_OPTIONS} is a JSON object")
    if reserved := RESERVED & options.keys():
        raise refused(TEMPLATE_OPTIONS, f"{min(reserved)} is not a variable of chat templates")
    return tools | options


def _loaded(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _list_of(name: str, text: str) -> list[Any]:
    items = _loaded(text)
    if not isinstance(items, list):
        raise refused(name, f"{name} is a JSON list")
    return items


def _plain(message: Any) -> dict[str, Any]:
    """A message whose content is one text, because most templates know no other."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise refused(MESSAGES, "Each of the messages is an object with a role")
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) != len(parts):
            raise refused(MESSAGES, "The model takes text only, as the content of messages")
        content = "".join(texts)
    if content is not None and not isinstance(content, str):
        raise refused(MESSAGES, "The content of a message is text or a list of parts")
    return {**message, "content": content or ""}
