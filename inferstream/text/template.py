"""Chat templates: Jinja that makes one prompt of chat messages, as tokenizers carry it."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from time import strftime
from typing import Any

from ..errors import ModelLoadFailed
from ..settings import ModelSettings
from .calls.formats import call_format, reasoning_format
from .chat import plain_prompt
from .fields import wrong_field

logger = logging.getLogger("inferstream.text")

Render = Callable[[Sequence[dict[str, Any]]], str]
"""Makes a prompt of messages. Raises InvalidRequest for messages that the template refuses."""

LARGEST = 1_000_000
"""Bytes of a template at most."""


def chat_template(settings: ModelSettings) -> Render:
    """How prompts are made for a model that takes no messages.

    By the template in its settings, else by that of the tokenizer in its folder, else by the plain one.
    Raises ModelLoadFailed for a template of the settings that cannot be used.
    """
    named = settings.chat_template
    folder = _folder(settings)
    if named is not None:
        try:
            return _compiled(_text_of(named, folder), {})
        except Exception as error:
            raise ModelLoadFailed(f"Model {settings.name} did not load: chat_template: {error}") from error
    template, special = _of_tokenizer(folder)
    if template is None:
        return plain_prompt
    try:
        return _compiled(template, special)
    except Exception as error:
        logger.warning("model %s: its tokenizer's chat template is not used: %s", settings.name, error)
        return plain_prompt


def text_formats(settings: ModelSettings) -> tuple[str | None, str | None]:
    """The formats in which a model writes calls and reasoning: by its settings, else as its template shows them."""
    if settings.tool_format and settings.reasoning_format:
        return settings.tool_format, settings.reasoning_format
    template = _source(settings) or ""
    return settings.tool_format or call_format(template), settings.reasoning_format or reasoning_format(
        template
    )


def _source(settings: ModelSettings) -> str | None:
    """The text of the template in the settings, else of that of the tokenizer in the model's folder."""
    folder, named = _folder(settings), settings.chat_template
    if named is None and settings.parameters is not None:
        named = (settings.parameters.extra or {}).get("chat_template")
    if not isinstance(named, str):
        return _of_tokenizer(folder)[0]
    try:
        return _text_of(named, folder)
    except (OSError, ValueError):
        return None


def _text_of(named: str, folder: Path | None) -> str:
    """A template that settings hold, or name as a file."""
    file = Path(folder or ".") / named
    return file.read_text() if "{" not in named and file.is_file() else named


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
        return None, {}
    config = folder / "tokenizer_config.json"
    try:
        document = json.loads(config.read_text()) if config.is_file() else {}
        template = folder / "chat_template.jinja"
        source = template.read_text() if template.is_file() else document.get("chat_template")
    except (OSError, ValueError, AttributeError):
        return None, {}
    if isinstance(source, list):  # several templates by name
        source = next((each.get("template") for each in source if each.get("name") == "default"), None)
    tokens = {
        name: _token(document.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")
    }
    return (source if isinstance(source, str) else None), tokens


def _token(value: Any) -> str:
    return str(value.get("content", "") if isinstance(value, dict) else value or "")


def _compiled(source: str, special: dict[str, str]) -> Render:
    """A template that may do nothing but write text. Raises ImportError without Jinja, or what Jinja raises."""
    from jinja2.ext import loopcontrols  # late: only models with a template need it
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if len(source) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = strftime  # the date, in the system prompts of some models
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    template = environment.from_string(source)

    def render(messages: Sequence[dict[str, Any]]) -> str:
        try:
            return str(template.render(messages=messages, add_generation_prompt=True, tools=None, **special))
        except Exception as error:  # of any kind: a template may add a text to what a client left out
            raise wrong_field("messages", f"the chat template refuses them: {error}") from error

    return render


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)
