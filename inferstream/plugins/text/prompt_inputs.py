"""Reads the inputs of a language model request: text, chat messages and template variables."""

from typing import Any

import orjson

from inferstream.types import InferenceRequest, RequestInput

from .chat_prompts import ChatPrompts
from .fields import field_error
from .inputs import MESSAGES, TEMPLATE_OPTIONS, TOOLS


def read_strings(request: InferenceRequest) -> dict[str, str]:
    """Return the text of each input. Raises InvalidRequest unless each is a single UTF-8 string."""
    return {tensor.name: _read_string(tensor) for tensor in request.inputs}


def _read_string(tensor: RequestInput) -> str:
    values = tensor.data.flat()
    if len(values) != 1:
        raise field_error(tensor.name, f"{tensor.name} is one text, not {len(values)}")
    value = values[0]
    try:
        return value if isinstance(value, str) else bytes(value).decode()
    except (TypeError, ValueError):
        raise field_error(tensor.name, f"{tensor.name} is no UTF-8 text") from None


def take_options(texts: dict[str, str]) -> dict[str, Any]:
    """Remove the template variables from `texts` and return them. Raises InvalidRequest."""
    options: dict[str, Any] = {}
    if TEMPLATE_OPTIONS in texts:
        options |= _parse_json(TEMPLATE_OPTIONS, texts.pop(TEMPLATE_OPTIONS), dict)
    if TOOLS in texts:
        options[TOOLS] = _parse_json(TOOLS, texts.pop(TOOLS), list)
    return options


def write_prompt(template: ChatPrompts | None, text: str, options: dict[str, Any]) -> str:
    """Render messages in JSON to a prompt. Raises InvalidRequest."""
    if template is None:
        raise field_error(MESSAGES, "The model has no chat template, so it takes no messages")
    messages = _parse_json(MESSAGES, text, list)
    if not messages:
        raise field_error(MESSAGES, "messages is empty")
    if not all(isinstance(each, dict) and isinstance(each.get("role"), str) for each in messages):
        raise field_error(MESSAGES, "Each of the messages is an object with a role")
    return template.write(messages, options=options)


def _parse_json(name: str, text: str, kind: type[Any]) -> Any:
    """Parse JSON. Raises InvalidRequest if the value is not of `kind`."""
    try:
        value = orjson.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise field_error(name, f"{name} is a JSON {'list' if kind is list else 'object'}")
    return value
