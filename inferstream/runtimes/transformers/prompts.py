"""Turns the inputs of a request into the tokens of a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferstream.plugins.llm.text_tensors import text_inputs

from ...text.calls.thinking import begin_answer
from ...text.chat_prompts import ChatPrompts
from ...text.fields import refused
from ...text.inputs import MESSAGES, RESPONSE_FORMAT, TEMPLATE_OPTIONS, TOOLS
from ...text.limited_template import LimitedTemplate
from ...text.prompt_inputs import write_prompt
from ...types import MetadataTensor
from ..sampling import read_tokens

PROMPT = "prompt"


class TokenizerTemplate(ChatPrompts):
    """The template of a tokenizer of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(str(tokenizer.chat_template))
        self._tokenizer = tokenizer

    def _render(self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        arguments = {**variables, "tokenize": False, "chat_template": None, "return_dict": False}
        text: str = self._tokenizer.apply_chat_template(messages, **arguments)
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
        self._template: ChatPrompts | None = TokenizerTemplate(tokenizer) if self.chats else None
        self.reasoning: str | None = None
        """The format of the reasoning that the template may open."""
        self.template = str(tokenizer.chat_template or "")
        if untrusted is not None and self.chats:
            named = tokenizer.chat_template
            source = named if isinstance(named, str) else named.get("default") or next(iter(named.values()))
            special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
            self._template = LimitedTemplate(untrusted, source, special)

    def inputs(self, tools: bool = False) -> list[MetadataTensor]:
        """The inputs of a model that takes what this can read."""
        chat = [MESSAGES, *([TOOLS] if tools else []), TEMPLATE_OPTIONS] if self.chats else []
        return text_inputs(PROMPT, *chat, RESPONSE_FORMAT)

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text alone."""
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def read(
        self, texts: Mapping[str, str], options: dict[str, Any], opening: str | None = None, size: int = 0
    ) -> tuple[list[int], str, str]:
        """The tokens of a prompt, the name of the input that holds it, and the beginning of the text.

        `options` are those of the template, and `opening` is the beginning of the answer to messages; None leaves it
        to the model. With a `size` the prompt is numbers of so many tokens. Raises InvalidRequest.
        """
        if MESSAGES in texts:
            if len(texts) > 1:
                others = ", ".join(name for name in texts if name != MESSAGES)
                raise refused(MESSAGES, f"A request has either messages or a prompt, not {others} too")
            prompt = write_prompt(self._template, texts[MESSAGES], options)
            added, begun = begin_answer(prompt, self.reasoning, opening)
            return self.tokens(prompt + added), MESSAGES, begun
        if len(texts) != 1:
            raise refused(PROMPT, "A request needs one prompt" + (" or messages" if self.chats else ""))
        ((name, text),) = texts.items()
        if size:
            return read_tokens(name, text, size, len(text)), name, ""
        tokens: list[int] = self._tokenizer(text)["input_ids"]
        if not tokens and self._tokenizer.bos_token_id is not None:
            tokens = [self._tokenizer.bos_token_id]
        if not tokens:
            raise refused(name, f"{name} is empty")
        return tokens, name, ""
