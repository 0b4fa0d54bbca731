"""`FastTokenizer`: a tokenizer in `tokenizer.json`, with the methods that our language runtimes use."""

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from inferstream.plugins.text.jinja import compile_template

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
TEMPLATES = "chat_template.json"
GENERATION = "generation_config.json"
FILES = (TOKENIZER, CONFIG, TEMPLATE, TEMPLATES, GENERATION)

MAX_BYTES = 1 << 28
"""Maximum size of an archive, and of each file in it."""

SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


class FastTokenizer:
    """A tokenizer with the interface of transformers, from the contents of its files by name.

    Raises ValueError if a file cannot be used, and ImportError if the library is missing.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        from tokenizers import Tokenizer  # Imported lazily: only this runtime needs it.

        if TOKENIZER not in files:
            raise ValueError(f"there is no {TOKENIZER}")
        try:
            self._tokenizer = Tokenizer.from_str(files[TOKENIZER].decode())
        except Exception as error:  # the library raises Exception itself
            raise ValueError(f"{TOKENIZER} cannot be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        config = _read_json(files, CONFIG)
        special = {name: _read_special(config.get(name)) for name in SPECIAL}
        self.special_tokens_map = {name: token for name, token in special.items() if token}
        self.bos_token_id: int | None = self._tokenizer.token_to_id(special["bos_token"])
        self.chat_template: Any = _find_template(files, config)
        ends = _read_json(files, GENERATION).get("eos_token_id")
        end = self._tokenizer.token_to_id(special["eos_token"])
        self.ends = {*([ends] if isinstance(ends, int) else ends or ()), *([] if end is None else [end])}
        """End tokens of the generation configuration and of the tokenizer."""

    @property
    def size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self._tokenizer.get_vocab_size())

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids}

    def decode(
        self, tokens: list[int], skip: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> str:
        """Return the text of tokens. If `skip` is true, special tokens have none."""
        return self._tokenizer.decode(tokens, skip)

    def convert_ids_to_tokens(self, token: int) -> str | None:
        return self._tokenizer.id_to_token(token)

    def apply_chat_template(self, messages: Sequence[dict[str, Any]], **options: Any) -> str:
        """Render messages with `chat_template`. Arguments of transformers that choose a format are ignored."""
        variables = {"tools": None, **self.special_tokens_map, **options}
        return str(_compile(str(self.chat_template)).render(messages=messages, **variables))


_compile = lru_cache(16)(compile_template)


def read_folder(path: Path) -> dict[str, bytes]:
    """Return the tokenizer files of a folder, or next to a `tokenizer.json`. Raises OSError."""
    folder = path if path.is_dir() else path.parent
    files = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    return files if path.is_dir() else {**files, TOKENIZER: path.read_bytes()}


def read_archive(data: bytes, digest: str) -> dict[str, bytes]:
    """Return the tokenizer files in a ZIP archive with this SHA-256 digest. Raises ValueError."""
    if digest and hashlib.sha256(data).hexdigest() != digest:
        raise ValueError("its archive is damaged")
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            for member in archive.infolist():
                if member.filename in FILES:
                    with archive.open(member) as file:
                        files[member.filename] = file.read(MAX_BYTES + 1)
                    if len(files[member.filename]) > MAX_BYTES:
                        raise ValueError(f"{member.filename} is too large")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise ValueError("its archive cannot be read") from error
    return files


def _read_json(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        document = json.loads(files.get(name, b"{}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} cannot be read") from error
    if not isinstance(document, dict):
        raise ValueError(f"{name} is not an object")
    return document


def _read_special(value: Any) -> str:
    return str(value.get("content", "") if isinstance(value, dict) else value or "")


def _find_template(files: Mapping[str, bytes], config: Mapping[str, Any]) -> str | None:
    """Return the chat template, from its own file or the configuration."""
    if TEMPLATE in files:
        return files[TEMPLATE].decode()
    template = _read_json(files, TEMPLATES).get("chat_template") or config.get("chat_template")
    if isinstance(template, list):  # several named templates
        named = {each.get("name"): each.get("template") for each in template}
        template = named.get("default") or next(iter(named.values()), None)
    return template if isinstance(template, str) else None
