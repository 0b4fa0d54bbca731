"""Bodies in parts (RFC 7578), as forms with files have them. No part becomes a file of the server's.

A body is whole when it is read, and no larger than the server allows. What is read of it is bounded too: a part is
found by one search for the boundary, which takes time in proportion to the body.
"""

import re
from typing import NamedTuple

from ..errors import InvalidRequest, UnsupportedEncoding

MOST_PARTS = 64
LONGEST_BOUNDARY = 70
"""Characters of a boundary (RFC 2046 section 5.1.1)."""

LONGEST_HEAD = 4 * 1024
"""Bytes of the headers of one part."""

_MEDIA_TYPE = re.compile(
    rb'multipart/form-data[ \t]*;(?:[^"]*;)?[ \t]*boundary=(?:"([^"\r\n]+)"|([^\s";,]+))', re.I
)
_DISPOSITION = re.compile(rb"content-disposition:[ \t]*form-data[ \t]*", re.I)
_CONTENT_TYPE = re.compile(rb"content-type:[ \t]*([\w.+-]+/[\w.+-]+)", re.I)
_PARAMETER = re.compile(rb';[ \t]*([\w*-]+)=(?:"((?:[^"\\\r\n]|\\[^\r\n])*)"|([^\s";]+))[ \t]*')


class FormPart(NamedTuple):
    """One part. Its client chooses the name of a file, which is no path of the server."""

    name: str
    content: bytes
    media_type: str = ""
    """Without parameters, in lower case; empty where the part does not say it."""
    filename: str = ""


def parts_of(media_type: bytes, body: bytes) -> list[FormPart]:
    """The parts of a body. Raises InvalidRequest, and UnsupportedEncoding for a body of another media type."""
    match = _MEDIA_TYPE.match(media_type[:256])
    if match is None:
        raise UnsupportedEncoding(
            "The body must be multipart/form-data, and its Content-Type name a boundary."
        )
    boundary = match[1] or match[2]
    if len(boundary) > LONGEST_BOUNDARY:
        raise InvalidRequest(f"The boundary is longer than {LONGEST_BOUNDARY} characters.")
    delimiter = b"\r\n--" + boundary
    if not body.startswith(delimiter[2:]):
        raise InvalidRequest("The body does not begin with its boundary.")
    parts: list[FormPart] = []
    at = len(delimiter) - 2
    while not body.startswith(b"--", at):
        if len(parts) == MOST_PARTS:
            raise InvalidRequest(f"The body has more than {MOST_PARTS} parts.")
        if not body.startswith(b"\r\n", at):
            raise InvalidRequest("A boundary is followed by neither a part nor the end.")
        end = body.find(delimiter, at)
        if end < 0:
            raise InvalidRequest("The last part of the body does not end with its boundary.")
        parts.append(_part(body, at, end))
        at = end + len(delimiter)
    return parts


def _part(body: bytes, start: int, end: int) -> FormPart:
    """The part between the ends of two boundaries. Its headers begin with a line break, and end with two."""
    head = body.find(b"\r\n\r\n", start, min(end, start + LONGEST_HEAD))
    if head < 0:
        raise InvalidRequest(f"A part has no headers, or more than {LONGEST_HEAD} bytes of them.")
    lines = body[start:head].split(b"\r\n")
    names = [_names(line[match.end() :]) for line in lines if (match := _DISPOSITION.match(line))]
    if len(names) != 1:
        raise InvalidRequest('A part needs one header "Content-Disposition: form-data" with a name.')
    types = [match[1] for line in lines if (match := _CONTENT_TYPE.match(line))]
    media_type = types[0].lower().decode("latin-1") if types else ""
    return FormPart(names[0][0], body[head + 4 : end], media_type, names[0][1])


def _names(parameters: bytes) -> tuple[str, str]:
    """The names of a part and its file in the parameters of a header. Each is read: none hides in another's value."""
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
