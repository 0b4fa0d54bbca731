"""Reads the inputs of a request to a language model: texts, chat messages and variables of its template."""

from typing import Any

import orjson

from ..types import InferenceRequest, RequestInput
from .chat_prompts import ChatPrompts
from .fields import refused
from .inputs import MESSAGES, TEMPLATE_OPTIONS, TOOLS


def texts_of(request: InferenceRequest) -> dict[str, str]:
    """The text of each input. Raises InvalidRequest for one that is not a single text."""
    return {tensor.name: _text_of(tensor) for tensor in request.inputs}


def _text_of(tensor: RequestInput) -> str:
    values = tensor.data.flat()
    if len(values) != 1:
        raise refused(tensor.name, f"{tensor.name} is one text, not {len(values)}")
    value = values[0]
    try:
        return value if isinstance(value, str) else bytes(value).decode()
    except (TypeError, ValueError):
        raise refused(tensor.name, f"{tensor.name} is no UTF-8 text") from None


def take_options(texts: dict[str, str]) -> dict[str, Any]:
    """The variables of a chat template, which are taken out of the texts. Raises InvalidRequest."""
    options: dict[str, Any] = {}
    if TEMPLATE_OPTIONS in texts:
        options |= _loaded(TEMPLATE_OPTIONS, texts.pop(TEMPLATE_OPTIONS), dict)
    if TOOLS in texts:
        options[TOOLS] = _loaded(TOOLS, texts.pop(TOOLS), list)
    return options


def write_prompt(template: ChatPrompts | None, text: str, options: dict[str, Any]) -> str:
    """The prompt of messages in JSON. Raises InvalidRequest."""
    if template is None:
        raise refused(MESSAGES, "The model has no chat template, so it takes no messages")
    messages = _loaded(MESSAGES, text, list)
    if not messages:
        raise refused(MESSAGES, "messages is empty")
    if not all(isinstance(each, dict) and isinstance(each.get("role"), str) for each in messages):
        raise refused(MESSAGES, "Each of the messages is an object with a role")
    return template.write(messages, options=options)


def _loaded(name: str, text: str, kind: type[Any]) -> Any:
    """A value in JSON. Raises InvalidRequest for one of another kind."""
    try:
        value = orjson.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise refused(name, f"{name} is a JSON {'list' if kind is list else 'object'}")
    return value
