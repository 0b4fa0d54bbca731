"""Removal of secrets from recorded contents: JSON values by key, API keys and sealed states."""

import json
import re
import zlib
from collections.abc import Set
from typing import Any, AnyStr

REDACTED = "[redacted]"

_LINE = re.compile(r"(data: ?)?(\{.*\}|\[.*\])\r?")
_FRAME = re.compile(r"(?:(?:event|id|retry)?:.*|data: ?\[DONE\])?\r?")
"""Lines of event streams that contain no values."""

_COMPRESSED = (b"\x1f", b"\x78")
"""The first byte of gzip and of deflate data. JSON and events never start with either."""
_MAX_UNPACKED = 64 * 2**20
_STATE = b"ifs_state_"
_STATES = re.compile(_STATE + rb"[A-Za-z0-9_-]+")


_FEWEST = 40
"""Minimum length of a key without its prefix, in characters."""

_PREFIX = b"ifs_"
_MARKS = (b"ifs_", *(b"\\u00" + digits for digits in (b"69", b"66", b"73", b"5f", b"5F")))
"""The prefix, and JSON escapes of its letters. Content without any of these has no key."""
_ESCAPED_KEY = re.compile(
    rb"(?:i|\\u0069)(?:f|\\u0066)(?:s|\\u0073)(?:_|\\u005[fF])"
    rb"(?:[A-Za-z0-9._-]++|\\u00(?:2[dDeE]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA]))++"
)
_PIECE, _LONGEST = 32 * 1024, 2048
"""Bytes per search, and the maximum length of an escaped key in bytes.

Content is searched in pieces, because a search holds the interpreter lock.
"""


def remove_secrets(content: bytes | str, states: bool) -> bytes | str | None:
    """Remove API keys and, with `states`, sealed states.

    Anyone with a state could continue its conversation.

    Returns None for compressed content that contains a secret or is too large to inspect.
    """
    if isinstance(content, str):
        return hide_keys(content)
    if content[:1] in _COMPRESSED:
        unpacking = zlib.decompressobj(47)
        try:
            plain = unpacking.decompress(content, _MAX_UNPACKED)
        except zlib.error:
            plain = b""
        else:
            if not unpacking.eof or remove_secrets(plain, states) != plain:
                return None
    if states and _STATE in content:
        content = _STATES.sub(_STATE + b"[redacted]", content)
    return hide_keys(content)


def redact(content: bytes | str, names: Set[str]) -> str | None:
    """Replace the values of these names in JSON, JSON lines or server-sent events.

    The data of tensors with these names is also replaced. Returns None for any other format.
    """
    try:
        text = content if isinstance(content, str) else content.decode()
        try:
            return json.dumps(_clean(json.loads(text), names))
        except ValueError:
            return _lines(text, names)
    except (ValueError, RecursionError):
        return None


def _lines(text: str, names: Set[str]) -> str | None:
    lines = []
    for line in text.split("\n"):
        if _FRAME.fullmatch(line):
            lines.append(line)
        elif (json_line := _LINE.fullmatch(line)) is not None:
            lines.append((json_line[1] or "") + json.dumps(_clean(json.loads(json_line[2]), names)))
        else:
            return None
    return "\n".join(lines)


def _clean(value: Any, names: Set[str]) -> Any:
    if isinstance(value, list):
        return [_clean(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    tensor = value.get("name") in names if isinstance(value.get("name"), str) else False
    return {
        key: REDACTED if key in names or (tensor and key == "data") else _clean(each, names)
        for key, each in value.items()
    }


def hide_keys(content: AnyStr) -> AnyStr:
    """Replace each API key with asterisks of the same length, so that length fields stay valid."""
    if isinstance(content, str):
        raw = content.encode(errors="surrogatepass")
        hidden = hide_keys(raw)
        return content if hidden is raw else hidden.decode(errors="surrogatepass")
    if not any(mark in content for mark in _MARKS):
        return content
    written: bytearray | None = None
    for start in range(0, len(content), _PIECE):
        for match in _ESCAPED_KEY.finditer(content, start, start + _PIECE + _LONGEST):
            length = len(match[0])
            if match.start() < start + _PIECE and length - 5 * match[0].count(b"\\") >= _FEWEST + len(
                _PREFIX
            ):
                written = bytearray(content) if written is None else written
                written[match.start() : match.end()] = _PREFIX.ljust(length, b"*")
    return content if written is None else bytes(written)
