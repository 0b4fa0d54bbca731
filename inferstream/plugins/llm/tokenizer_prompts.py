"""Prompts for tokenizers with the interface of transformers."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferstream.plugins.text.chat_prompts import ChatPrompts
from inferstream.plugins.text.limited_template import LimitedTemplate

from .prompts import PromptReader


class TokenizerTemplate(ChatPrompts):
    """The chat template of a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(str(tokenizer.chat_template))
        self._tokenizer = tokenizer

    def _render(self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        arguments = {**variables, "tokenize": False, "chat_template": None, "return_dict": False}
        text: str = self._tokenizer.apply_chat_template(messages, **arguments)
        return text


class Prompts(PromptReader):
    """Tokenizes prompts, and renders chat messages with the template of the tokenizer.

    `untrusted` is the model name if its author is not trusted. The template is then rendered in a process
    with limits.
    """

    def __init__(self, tokenizer: Any, template: str | None, untrusted: str | None = None) -> None:
        if template is not None:
            tokenizer.chat_template = template
        self.template = str(tokenizer.chat_template or "")
        renderer: ChatPrompts | None = TokenizerTemplate(tokenizer) if tokenizer.chat_template else None
        if untrusted is not None and renderer is not None:
            named = tokenizer.chat_template
            source = named if isinstance(named, str) else named.get("default") or next(iter(named.values()))
            special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
            renderer = LimitedTemplate(untrusted, source, special)

        def tokens(text: str) -> list[int]:
            return [*tokenizer(text, add_special_tokens=False)["input_ids"]]

        def start(text: str) -> list[int]:
            bos = tokenizer.bos_token_id
            return [*tokenizer(text)["input_ids"]] or ([] if bos is None else [bos])

        super().__init__(renderer, tokens, start)
