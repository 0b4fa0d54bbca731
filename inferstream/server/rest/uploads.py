"""File bodies and multipart forms as the inputs of a function."""

from collections.abc import Sequence
from typing import Any

import orjson

from ...codecs.values.base import OPTIONAL, fact
from ...codecs.values.images import Image
from ...codecs.values.scalars import Binary, Text
from ...codecs.values.uploads import Upload
from ...dataplane.admission import Admission
from ...errors import InvalidRequest, UnsupportedEncoding
from ...protos.multipart import FormPart, parts_of
from ...types import MetadataTensor, Parameters, RequestInput
from .dialects.base import ParsedRequest, Route
from .messages import UPLOADS, Head
from .query import is_list, parse_value

MAY_BE_JSON = UPLOADS[4:]
"""Media types that clients also use for JSON."""

FORMS = UPLOADS[0]
FILES = UPLOADS[1:4]

MAX_FIELD_LENGTH = 64 * 1024
"""Maximum bytes of a form field that is not a file or a string input."""

MAX_LOOK_LENGTH = 1024
"""Bytes at the start of a body that are searched for an input name, to recognize JSON."""


def parse_upload(head: Head, body: bytes, route: Route, admission: Admission | None) -> ParsedRequest | None:
    """Parse a form or a file. Returns None for JSON. Raises InvalidRequest or UnsupportedEncoding."""
    dialect = route.dialect
    if admission is None or not (dialect.takes_files and dialect.takes_json) or head.json_length is not None:
        return None
    inputs = _read(admission, head.media_type, body)
    return None if inputs is None else dialect.of_inputs(admission, route.operation, inputs)


def _read(admission: Admission, media_type: bytes, body: bytes) -> list[RequestInput] | None:
    flat, kind = admission.pipeline.flat, media_type.partition(b";")[0].strip().lower()
    inputs = admission.signature.inputs or ()
    if flat is None:
        if kind.startswith(FORMS):
            raise UnsupportedEncoding("multipart bodies are not accepted")
        return None
    if kind.startswith(FORMS):
        values = _collect_values(parts_of(media_type, body), inputs)
    else:
        needed = [tensor for tensor in inputs if not fact(tensor, OPTIONAL)]
        holds = (
            _takes_file
            if not kind.startswith(b"text/")
            else lambda each: _takes_file(each) or _takes_text(each)
        )
        if len(needed) != 1 or not holds(needed[0]):
            if kind.startswith(FILES):
                raise InvalidRequest(
                    f"Content-Type {kind.decode('latin-1')}: a body that is a file needs a model with one required "
                    f"argument, of bytes or an image; {flat.arguments.list_inputs()}"
                )
            return None
        name = needed[0].name
        # Browsers post JSON as text/plain if the page sets no type; a file may start with "{" by chance.
        is_named = (
            not flat.strict or kind == b"text/plain" or b'"%b"' % name.encode() in body[:MAX_LOOK_LENGTH]
        )
        if is_named and kind in MAY_BE_JSON and body.startswith(b"{"):
            return None
        part = FormPart(name, body, kind.decode("latin-1"))
        values = {name: _parse_field(part, needed[0], {name: needed[0]})}
    tensors = flat.arguments.read(values)
    for tensor in tensors:
        upload = values.get(tensor.name)
        if isinstance(upload, Upload) and (facts := upload.parameters()):
            known = {} if tensor.parameters is None else tensor.parameters.model_dump(exclude_none=True)
            tensor.parameters = Parameters.of({**known, **facts})
    return tensors


def _takes_file(tensor: MetadataTensor) -> bool:
    return _content_type(tensor) in (Binary.content, Image.content)


def _takes_text(tensor: MetadataTensor) -> bool:
    return tensor.datatype == "BYTES" and _content_type(tensor) in (None, Text.content)


def _content_type(tensor: MetadataTensor) -> str | None:
    return None if tensor.parameters is None else tensor.parameters.content_type


def _collect_values(parts: Sequence[FormPart], inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """Collect the values of a form. A list input may have several parts. Raises InvalidRequest."""
    declared = {tensor.name: tensor for tensor in inputs}
    values: dict[str, Any] = {}
    for part in parts:
        tensor = declared.get(part.name)
        value = _parse_field(part, tensor, declared)
        if is_list(tensor) and not isinstance(value, list):
            values.setdefault(part.name, []).append(value)
        elif part.name in values:
            raise InvalidRequest(f'field "{part.name[:40]}" is given twice')
        else:
            values[part.name] = value
    return values


def _parse_field(part: FormPart, tensor: MetadataTensor | None, declared: dict[str, MetadataTensor]) -> Any:
    if tensor is not None and _takes_file(tensor):
        return Upload(part.content, part.filename, part.media_type)
    is_text = tensor is not None and _takes_text(tensor)
    if len(part.content) > MAX_FIELD_LENGTH and not is_text:
        raise InvalidRequest(f'field "{part.name[:40]}" is longer than {MAX_FIELD_LENGTH} bytes')
    try:
        text = part.content.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f'field "{part.name[:40]}" is not UTF-8') from None
    if is_list(tensor) and text.startswith("["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            raise InvalidRequest(f'field "{part.name[:40]}" is not valid JSON') from None
    return parse_value(part.name, text, declared)
