"""Multipart bodies (RFC 7578), as sent by HTML forms with files. Parts are kept in memory, never in files.

The whole body is read before it is parsed, and its size is limited. Parsing is linear in the size of the
body, because each part is found by a single search for the boundary.
"""

import re
from typing import NamedTuple

from ..errors import InvalidRequest, UnsupportedEncoding

MAX_PARTS = 64
MAX_BOUNDARY_LENGTH = 70
"""The maximum length of a boundary, in characters (RFC 2046 section 5.1.1)."""

MAX_HEAD_LENGTH = 4 * 1024
"""The maximum size of the headers of a part, in bytes."""

_MEDIA_TYPE = re.compile(
    rb'multipart/form-data[ \t]*;(?:[^"]*;)?[ \t]*boundary=(?:"([^"\r\n]+)"|([^\s";,]+))', re.I
)
_DISPOSITION = re.compile(rb"content-disposition:[ \t]*form-data[ \t]*", re.I)
_CONTENT_TYPE = re.compile(rb"content-type:[ \t]*([\w.+-]+/[\w.+-]+)", re.I)
_PARAMETER = re.compile(rb';[ \t]*([\w*-]+)=(?:"((?:[^"\\\r\n]|\\[^\r\n])*)"|([^\s";]+))[ \t]*')


class FormPart(NamedTuple):
    """One part. The client chooses the filename, so never use it as a path on the server."""

    name: str
    content: bytes
    media_type: str = ""
    """Lower case, without parameters. Empty if the part has none."""
    filename: str = ""


def parts_of(media_type: bytes, body: bytes) -> list[FormPart]:
    """Return the parts of a multipart/form-data body.

    Raises InvalidRequest, or UnsupportedEncoding for any other media type.
    """
    match = _MEDIA_TYPE.match(media_type[:256])
    if match is None:
        raise UnsupportedEncoding(
            "The body must be multipart/form-data, and its Content-Type name a boundary."
        )
    boundary = match[1] or match[2]
    if len(boundary) > MAX_BOUNDARY_LENGTH:
        raise InvalidRequest(f"The boundary is longer than {MAX_BOUNDARY_LENGTH} characters.")
    delimiter = b"\r\n--" + boundary
    if not body.startswith(delimiter[2:]):
        raise InvalidRequest("The body does not begin with its boundary.")
    parts: list[FormPart] = []
    at = len(delimiter) - 2
    while not body.startswith(b"--", at):
        if len(parts) == MAX_PARTS:
            raise InvalidRequest(f"The body has more than {MAX_PARTS} parts.")
        if not body.startswith(b"\r\n", at):
            raise InvalidRequest("A boundary is followed by neither a part nor the end.")
        end = body.find(delimiter, at)
        if end < 0:
            raise InvalidRequest("The last part of the body does not end with its boundary.")
        parts.append(_part(body, at, end))
        at = end + len(delimiter)
    return parts


def _part(body: bytes, start: int, end: int) -> FormPart:
    """Return the part between two boundaries.

    A line break precedes its headers, and an empty line follows them.
    """
    head = body.find(b"\r\n\r\n", start, min(end, start + MAX_HEAD_LENGTH))
    if head < 0:
        raise InvalidRequest(f"A part has no headers, or more than {MAX_HEAD_LENGTH} bytes of them.")
    lines = body[start:head].split(b"\r\n")
    names = [_names(line[match.end() :]) for line in lines if (match := _DISPOSITION.match(line))]
    if len(names) != 1:
        raise InvalidRequest('A part needs one header "Content-Disposition: form-data" with a name.')
    types = [match[1] for line in lines if (match := _CONTENT_TYPE.match(line))]
    media_type = types[0].lower().decode("latin-1") if types else ""
    return FormPart(names[0][0], body[head + 4 : end], media_type, names[0][1])


def _names(parameters: bytes) -> tuple[str, str]:
    """Return the names of a part and its file.

    All parameters are parsed, so that one cannot hide in the value of another.
    """
    names: list[bytes] = []
    filename = b""
    at = 0
    while (match := _PARAMETER.match(parameters, at)) is not None:
        if match[1].lower() == b"name":
            names.append(match[3] if match[2] is None else match[2])
        elif match[1].lower() == b"filename":
            filename = match[3] if match[2] is None else match[2]
        at = match.end()
    if len(names) != 1 or at != len(parameters):
        raise InvalidRequest("A part has no name, or parameters that cannot be read.")
    try:
        return names[0].decode(), filename.decode(errors="replace")
    except UnicodeDecodeError:
        raise InvalidRequest("The name of a part is not UTF-8.") from None
