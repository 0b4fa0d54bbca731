"""Chat templates: Jinja templates from tokenizers that render chat messages to a prompt."""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from inferstream import ModelSettings
from inferstream.errors import ModelLoadFailed

from .calls.formats import detect_call_format, detect_reasoning_format
from .chat import NONE, build_plain_prompt
from .chat_prompts import ChatPrompts
from .jinja import compile_template
from .limited_template import LimitedTemplate
from .settings import TextSettings

logger = logging.getLogger("inferstream.text")

Render = Callable[..., "str | Future[str]"]
"""A function that renders messages to a prompt.

It takes the messages, the request field that holds them, and variables for the template. It may return a
future. Raises InvalidRequest if the template rejects the messages.
"""

Origin = Callable[[Path], str | None]
"""A function that returns the origin of a file if its author is not trusted, else None."""

MAX_TEMPLATE_BYTES = 1_000_000
"""Maximum size of a template in bytes."""

CONFIG = "tokenizer_config.json"

TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")
"""Special tokens that a template may use."""

MAX_PATH_LENGTH = 4096

MAX_CONFIG_SIZE = 8_000_000
"""Maximum size of a tokenizer configuration in bytes. Some models list every token in it."""

INLINE_MESSAGES = 256
"""Maximum number of messages to render on the event loop, in about 0.5 ms. A thread adds about 0.1 ms."""


def load_chat_template(settings: ModelSettings, origin: Origin = lambda _: None) -> Render:
    """Return the function that renders prompts for a model that does not take messages.

    It uses the template in the settings, else the tokenizer's template in the model folder, else the plain
    prompt. Templates of untrusted authors are rendered in processes with resource limits. Raises
    ModelLoadFailed if the template in the settings cannot be used.
    """
    named = settings.section(TextSettings).chat_template
    folder = _folder(settings)
    template, special = _read_tokenizer(folder)
    if named is not None:
        try:
            source, author = _read_template(named, settings, folder, origin)
            if author is not None:
                return LimitedTemplate(settings.name, source, special)
            return Template(source, special)
        except Exception as error:
            raise ModelLoadFailed(f"Model {settings.name} did not load: chat_template: {error}") from error
    if template is None or folder is None:
        return build_plain_prompt
    try:
        if origin(folder / CONFIG) is not None:
            return LimitedTemplate(settings.name, template, special, build_plain_prompt)
        return Template(template, special)
    except Exception as error:
        logger.warning("model %s: chat template of the tokenizer is not used: %s", settings.name, error)
        return build_plain_prompt


def find_formats(
    settings: ModelSettings, origin: Origin = lambda _: None, template: str | None = None
) -> tuple[str | None, str | None]:
    """Return the tool call and reasoning formats, from the model settings or detected in the template."""
    text = settings.section(TextSettings)
    if text.tool_format and text.reasoning_format:
        return text.tool_format, text.reasoning_format
    template = template or _find_source(settings, origin) or ""
    return text.tool_format or detect_call_format(template), text.reasoning_format or detect_reasoning_format(
        template
    )


def _find_source(settings: ModelSettings, origin: Origin) -> str | None:
    """Return the template source from the settings, or from the tokenizer in the model folder."""
    folder, named = _folder(settings), settings.section(TextSettings).chat_template
    if named is None and settings.parameters is not None:
        named = (settings.parameters.extra or {}).get("chat_template")
    if not isinstance(named, str):
        return _read_tokenizer(folder)[0]
    try:
        return _read_template(named, settings, folder, origin)[0]
    except (OSError, ValueError):
        return None


def _read_template(
    named: str, settings: ModelSettings, folder: Path | None, origin: Origin
) -> tuple[str, str | None]:
    """Return a template from settings or from the file that they name, and its author if not trusted.

    Raises ValueError if untrusted settings name a file outside the repository.
    """
    author = None if settings.source is None else origin(Path(settings.source))
    if "{" in named or len(named) > MAX_PATH_LENGTH:
        return named, author
    file = Path(os.path.realpath(Path(folder or ".") / named))
    theirs = origin(file)
    if author is not None and author != theirs:
        raise ValueError(f"the path of its file leads out of {author}; trust_remote_code allows it")
    return (_read(file, MAX_TEMPLATE_BYTES), theirs) if file.is_file() else (named, author)


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


def _read_tokenizer(folder: Path | None) -> tuple[str | None, dict[str, str]]:
    """Return the template in the tokenizer's files, and the special tokens that it may use."""
    if folder is None:
        return None, dict.fromkeys(TOKENS, "")
    config, template = folder / CONFIG, folder / "chat_template.jinja"
    try:
        document = json.loads(_read(config, MAX_CONFIG_SIZE)) if config.is_file() else {}
        source = _read(template, MAX_TEMPLATE_BYTES) if template.is_file() else document.get("chat_template")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None, dict.fromkeys(TOKENS, "")
    if isinstance(source, list):  # several named templates
        source = next((each.get("template") for each in source if each.get("name") == "default"), None)
    tokens = {name: _token(document.get(name)) for name in TOKENS}
    return (source if isinstance(source, str) else None), tokens


def _token(value: Any) -> str:
    return str(value.get("content", "") if isinstance(value, dict) else value or "")


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads that render long chats."""
    return ThreadPoolExecutor(2, "chat-templates")


class Template(ChatPrompts):
    """A template in a sandbox. Raises ImportError if Jinja is missing, or a Jinja exception."""

    def __init__(self, source: str, special: dict[str, str]) -> None:
        if len(source) > MAX_TEMPLATE_BYTES:
            raise ValueError(f"it has more than {MAX_TEMPLATE_BYTES} bytes")
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
