"""Turns the inputs of a request into the tokens of a prompt."""

from collections.abc import Mapping
from typing import Any

import orjson

from ...errors import InferstreamError
from ...text.inputs import MESSAGES, RESPONSE_FORMAT, TOOLS
from ...text.limited_template import LimitedTemplate
from ...types import InferenceRequest, MetadataTensor
from ..framework import text_inputs
from ..sampling import read_tokens, refused

PROMPT = "prompt"


class Prompts:
    """Reads prompts with a tokenizer of transformers: plain text, or chat messages by its template.

    The template of a model that is `untrusted`, whose name this is, is rendered in a process with limits.
    """

    def __init__(self, tokenizer: Any, template: str | None, untrusted: str | None = None) -> None:
        self._tokenizer = tokenizer
        if template is not None:
            tokenizer.chat_template = template
        self.chats = bool(tokenizer.chat_template)
        """Whether there is a template, so that messages can be read."""
        self._limited: LimitedTemplate | None = None
        if untrusted is not None and self.chats:
            named = tokenizer.chat_template
            source = named if isinstance(named, str) else named.get("default") or next(iter(named.values()))
            special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
            self._limited = LimitedTemplate(untrusted, source, special)

    def inputs(self, tools: bool = False) -> list[MetadataTensor]:
        """The inputs of a model that takes what this can read."""
        chat = [MESSAGES, *([TOOLS] if tools else [])] if self.chats else []
        return text_inputs(PROMPT, *chat, RESPONSE_FORMAT)

    def read(self, inputs: Mapping[str, str], opening: str = "", size: int = 0) -> tuple[list[int], str]:
        """The tokens of a prompt, and the name of the input that holds it. Raises InvalidRequest.

        `opening` is the beginning of the answer to messages. With a `size` the prompt is numbers of so many tokens.
        """
        texts = {**inputs}
        messages, tools = texts.pop(MESSAGES, None), texts.pop(TOOLS, None)
        if messages is not None:
            if texts:
                raise refused(
                    MESSAGES, f"A request has either messages or a prompt, not {', '.join(texts)} too"
                )
            return self._chat(messages, tools, opening), MESSAGES
        if len(texts) != 1:
            raise refused(PROMPT, "A request needs one prompt" + (" or messages" if self.chats else ""))
        ((name, text),) = texts.items()
        if size:
            return read_tokens(name, text, size, len(text)), name
        tokens: list[int] = self._tokenizer(text)["input_ids"]
        if not tokens and self._tokenizer.bos_token_id is not None:
            tokens = [self._tokenizer.bos_token_id]
        if not tokens:
            raise refused(name, f"{name} is empty")
        return tokens, name

    def _chat(self, text: str, tools: str | None, opening: str) -> list[int]:
        if not self.chats:
            raise refused(MESSAGES, "The model has no chat template, so it takes no messages")
        messages = [_plain(message) for message in _list_of(MESSAGES, text)]
        if not messages:
            raise refused(MESSAGES, "messages is empty")
        options = {} if tools is None else {"tools": _list_of(TOOLS, tools)}
        try:
            prompt = self._render(messages, options)
        except InferstreamError:
            raise
        except Exception as error:  # templates raise what they like, of jinja's and Python's
            reason = " ".join(str(error).split())
            raise refused(MESSAGES, f"The model's chat template refuses the messages: {reason}") from error
        tokens: list[int] = self._tokenizer(prompt + opening, add_special_tokens=False)["input_ids"]
        return tokens

    def _render(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> str:
        if self._limited is not None:
            return self._limited(messages, **options).result()
        text: str = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False, **options
        )
        return text


def texts_of(request: InferenceRequest) -> dict[str, str]:
    """The text of each input. Raises InvalidRequest for one that is not a single text."""
    return {tensor.name: _text_of(tensor) for tensor in request.inputs}


def _text_of(tensor: Any) -> str:
    values = tensor.data.flat()
    if len(values) != 1:
        raise refused(tensor.name, f"{tensor.name} is one text, not {len(values)}")
    value = values[0]
    try:
        return value if isinstance(value, str) else bytes(value).decode()
    except (TypeError, ValueError):
        raise refused(tensor.name, f"{tensor.name} is no UTF-8 text") from None


def _list_of(name: str, text: str) -> list[Any]:
    try:
        items = orjson.loads(text)
    except ValueError:
        items = None
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
