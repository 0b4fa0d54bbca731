"""Turns the inputs of a request into the tokens of a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...text.chat_prompts import ChatPrompts
from ...text.inputs import MESSAGES, RESPONSE_FORMAT, TEMPLATE_OPTIONS, TOOLS
from ...text.limited_template import LimitedTemplate
from ...types import InferenceRequest, MetadataTensor
from ..chats import read_messages, read_options
from ..framework import text_inputs
from ..sampling import refused

PROMPT = "prompt"


class TokenizerTemplate(ChatPrompts):
    """The template of a tokenizer of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(str(tokenizer.chat_template))
        self._tokenizer = tokenizer

    def _render(self, messages: Sequence[dict[str, Any]], **variables: Any) -> str:
        text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, **variables)
        return text


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
        self._template: LimitedTemplate | TokenizerTemplate = TokenizerTemplate(tokenizer)
        if untrusted is not None and self.chats:
            named = tokenizer.chat_template
            source = named if isinstance(named, str) else named.get("default") or next(iter(named.values()))
            special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
            self._template = LimitedTemplate(untrusted, source, special)

    def inputs(self, tools: bool = False) -> list[MetadataTensor]:
        """The inputs of a model that takes what this can read."""
        chat = [MESSAGES, *([TOOLS] if tools else []), TEMPLATE_OPTIONS] if self.chats else []
        return text_inputs(PROMPT, *chat, RESPONSE_FORMAT)

    def read(self, inputs: Mapping[str, str], opening: str = "") -> tuple[list[int], str]:
        """The tokens of a prompt, and the name of the input that holds it. Raises InvalidRequest.

        `opening` is the beginning of the answer to messages.
        """
        texts = {**inputs}
        messages, options = texts.pop(MESSAGES, None), read_options(texts)
        for name in (TOOLS, TEMPLATE_OPTIONS):
            texts.pop(name, None)
        if messages is not None:
            if texts:
                raise refused(
                    MESSAGES, f"A request has either messages or a prompt, not {', '.join(texts)} too"
                )
            return self._chat(messages, options, opening), MESSAGES
        if len(texts) != 1:
            raise refused(PROMPT, "A request needs one prompt" + (" or messages" if self.chats else ""))
        ((name, text),) = texts.items()
        tokens: list[int] = self._tokenizer(text)["input_ids"]
        if not tokens and self._tokenizer.bos_token_id is not None:
            tokens = [self._tokenizer.bos_token_id]
        if not tokens:
            raise refused(name, f"{name} is empty")
        return tokens, name

    def _chat(self, text: str, options: dict[str, Any], opening: str) -> list[int]:
        if not self.chats:
            raise refused(MESSAGES, "The model has no chat template, so it takes no messages")
        messages, template = read_messages(text), self._template
        if isinstance(template, LimitedTemplate):
            prompt = template(messages, **options).result()
        else:
            prompt = template.write(messages, **options)
        tokens: list[int] = self._tokenizer(prompt + opening, add_special_tokens=False)["input_ids"]
        return tokens


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
