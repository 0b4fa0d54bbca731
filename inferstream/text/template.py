"""Chat templates: Jinja that makes one prompt of chat messages, as tokenizers carry it."""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from inferstream import ModelSettings
from inferstream.plugins.text.settings import TextSettings

from ..errors import ModelLoadFailed
from .calls.formats import call_format, reasoning_format
from .chat import NONE, plain_prompt
from .chat_prompts import ChatPrompts
from .jinja import compile_template
from .limited_template import LimitedTemplate

logger = logging.getLogger("inferstream.text")

Render = Callable[..., "str | Future[str]"]
"""Makes a prompt of messages, the field of the request that they are in, and variables for the template.

It may be a future. Raises InvalidRequest for messages that the template refuses.
"""

Origin = Callable[[Path], str | None]
"""Where a file was fetched from, if its author is not trusted; else None."""

LARGEST = 1_000_000
"""Bytes of a template at most."""

CONFIG = "tokenizer_config.json"

TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")
"""Special tokens that a template may name."""

LONGEST_PATH = 4096

LARGEST_CONFIG = 8_000_000
"""Bytes of a tokenizer's configuration, in which some models list every token."""

INLINE_MESSAGES = 256
"""Messages that are rendered on the event loop, which takes half a millisecond. A hop to a thread takes a tenth."""


def chat_template(settings: ModelSettings, origin: Origin = lambda _: None) -> Render:
    """How prompts are made for a model that takes no messages.

    By the template in its settings, else by that of the tokenizer in its folder, else by the plain one. Templates of
    untrusted authors are rendered in processes with limits.
    Raises ModelLoadFailed for a template of the settings that cannot be used.
    """
    named = settings.section(TextSettings).chat_template
    folder = _folder(settings)
    template, special = _of_tokenizer(folder)
    if named is not None:
        try:
            source, author = _text_of(named, settings, folder, origin)
            if author is not None:
                return LimitedTemplate(settings.name, source, special)
            return Template(source, special)
        except Exception as error:
            raise ModelLoadFailed(f"Model {settings.name} did not load: chat_template: {error}") from error
    if template is None or folder is None:
        return plain_prompt
    try:
        if origin(folder / CONFIG) is not None:
            return LimitedTemplate(settings.name, template, special, plain_prompt)
        return Template(template, special)
    except Exception as error:
        logger.warning("model %s: its tokenizer's chat template is not used: %s", settings.name, error)
        return plain_prompt


def text_formats(
    settings: ModelSettings, origin: Origin = lambda _: None, template: str | None = None
) -> tuple[str | None, str | None]:
    """The formats in which a model writes calls and reasoning: by its settings, else as its template shows them."""
    text = settings.section(TextSettings)
    if text.tool_format and text.reasoning_format:
        return text.tool_format, text.reasoning_format
    template = template or _source(settings, origin) or ""
    return text.tool_format or call_format(template), text.reasoning_format or reasoning_format(template)


def _source(settings: ModelSettings, origin: Origin) -> str | None:
    """The text of the template in the settings, else of that of the tokenizer in the model's folder."""
    folder, named = _folder(settings), settings.section(TextSettings).chat_template
    if named is None and settings.parameters is not None:
        named = (settings.parameters.extra or {}).get("chat_template")
    if not isinstance(named, str):
        return _of_tokenizer(folder)[0]
    try:
        return _text_of(named, settings, folder, origin)[0]
    except (OSError, ValueError):
        return None


def _text_of(
    named: str, settings: ModelSettings, folder: Path | None, origin: Origin
) -> tuple[str, str | None]:
    """A template that settings hold, or name as a file, and its author if they are not trusted.

    Raises ValueError for a file outside of the repository, if untrusted settings name it.
    """
    author = None if settings.source is None else origin(Path(settings.source))
    if "{" in named or len(named) > LONGEST_PATH:
        return named, author
    file = Path(os.path.realpath(Path(folder or ".") / named))
    theirs = origin(file)
    if author is not None and author != theirs:
        raise ValueError(f"the path of its file leads out of {author}; trust_remote_code allows it")
    return (_read(file, LARGEST), theirs) if file.is_file() else (named, author)


def _read(file: Path, most: int) -> str:
    if file.stat().st_size > most:
        raise ValueError(f"{file.name} has more than {most:,} bytes")
    return file.read_text()


def _folder(settings: ModelSettings) -> Path | None:
    if settings.source is None:
        return None
    folder = Path(settings.source).parent
    uri = settings.parameters.uri if settings.parameters is not None else None
    artefacts = folder / uri if uri else folder
    return artefacts if artefacts.is_dir() else artefacts.parent


def _of_tokenizer(folder: Path | None) -> tuple[str | None, dict[str, str]]:
    """The template in a tokenizer's files, and the special tokens that it may name."""
    if folder is None:
        return None, dict.fromkeys(TOKENS, "")
    config, template = folder / CONFIG, folder / "chat_template.jinja"
    try:
        document = json.loads(_read(config, LARGEST_CONFIG)) if config.is_file() else {}
        source = _read(template, LARGEST) if template.is_file() else document.get("chat_template")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None, dict.fromkeys(TOKENS, "")
    if isinstance(source, list):  # several templates by name
        source = next((each.get("template") for each in source if each.get("name") == "default"), None)
    tokens = {name: _token(document.get(name)) for name in TOKENS}
    return (source if isinstance(source, str) else None), tokens


def _token(value: Any) -> str:
    return str(value.get("content", "") if isinstance(value, dict) else value or "")


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for prompts of many messages."""
    return ThreadPoolExecutor(2, "chat-templates")


class Template(ChatPrompts):
    """A template that may do nothing but write text. Raises ImportError without Jinja, or what Jinja raises."""

    def __init__(self, source: str, special: dict[str, str]) -> None:
        if len(source) > LARGEST:
            raise ValueError(f"it has more than {LARGEST} bytes")
        super().__init__(source)
        self._template, self._special = compile_template(source), special

    def __call__(
        self, messages: Sequence[dict[str, Any]], field: str = "messages", options: Mapping[str, Any] = NONE
    ) -> "str | Future[str]":
        if len(messages) <= INLINE_MESSAGES:
            return self.write(messages, field, options)
        return _threads().submit(self.write, messages, field, options)

    def _render(self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        return str(self._template.render({"tools": None, **variables, **self._special, "messages": messages}))
