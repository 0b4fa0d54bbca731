"""Converts the inputs of a request to prompt tokens."""

from collections.abc import Callable, Mapping
from typing import Any

from inferstream.plugins.text.calls.thinking import begin_answer
from inferstream.plugins.text.chat_prompts import ChatPrompts
from inferstream.plugins.text.fields import field_error
from inferstream.plugins.text.inputs import MESSAGES, RESPONSE_FORMAT, TEMPLATE_OPTIONS, TOOLS
from inferstream.plugins.text.prompt_inputs import write_prompt
from inferstream.types import MetadataTensor

from .sampling import read_tokens
from .text_tensors import text_inputs

PROMPT = "prompt"


class PromptReader:
    """Tokenizes prompts, and renders chat messages with a template, if there is one.

    `tokens` returns the tokens of a string without BOS and EOS, and `start` with them.
    """

    reasoning: str | None = None
    """The reasoning format that the template may open."""
    starts_chats = False
    """Whether the template leaves out BOS, so that it has to be added."""

    def __init__(
        self,
        template: ChatPrompts | None,
        tokens: Callable[[str], list[int]],
        start: Callable[[str], list[int]],
    ) -> None:
        self.tokens = tokens
        self._template = template
        self._start = start

    def inputs(self, tools: bool = False) -> list[MetadataTensor]:
        """Return the inputs of a model with these prompts."""
        chat = [MESSAGES, *([TOOLS] if tools else []), TEMPLATE_OPTIONS] if self._template else []
        return text_inputs(PROMPT, *chat, RESPONSE_FORMAT)

    def read(
        self, texts: Mapping[str, str], options: dict[str, Any], opening: str | None = None, size: int = 0
    ) -> tuple[list[int], str, str]:
        """Return the tokens of a prompt, the name of its input, and the start of the output.

        `options` are template variables. `opening` is the forced start of a chat response, or None to leave
        it to the model. If `size` is not 0, the prompt consists of token IDs below it. Raises InvalidRequest.
        """
        if MESSAGES in texts:
            if len(texts) > 1:
                others = ", ".join(name for name in texts if name != MESSAGES)
                raise field_error(MESSAGES, f"A request has either messages or a prompt, not {others} too")
            prompt = write_prompt(self._template, texts[MESSAGES], options)
            added, begun = begin_answer(prompt, self.reasoning, opening)
            tokenize = self._start if self.starts_chats else self.tokens
            return tokenize(prompt + added), MESSAGES, begun
        if len(texts) != 1:
            raise field_error(
                PROMPT, "A request needs one prompt" + (" or messages" if self._template else "")
            )
        ((name, text),) = texts.items()
        if size:
            return read_tokens(name, text, size, len(text)), name, ""
        if not (tokens := self._start(text)):
            raise field_error(name, f"{name} is empty")
        return tokens, name, ""
