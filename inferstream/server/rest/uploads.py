"""Bodies that are a file, and forms with files, as the inputs of a function."""

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
from .query import is_list, value_of

MAY_BE_JSON = UPLOADS[4:]
"""Media types under which clients send JSON too."""

FORMS = UPLOADS[0]
FILES = UPLOADS[1:4]

LONGEST_FIELD = 64 * 1024
"""Bytes of a part that is no file."""

LONGEST_LOOK = 1024
"""Bytes of a body that are searched for the name of an input."""


def parse_upload(head: Head, body: bytes, route: Route, admission: Admission | None) -> ParsedRequest | None:
    """The request in a form or in a file; None for JSON. Raises InvalidRequest, UnsupportedEncoding."""
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
        values = _form_values(parts_of(media_type, body), inputs)
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
                    f"argument, of bytes or an image; {flat.arguments.known()}"
                )
            return None
        name = needed[0].name
        # A page that posts JSON without a type sends it as plain text; a file may begin so by chance.
        is_named = not flat.strict or kind == b"text/plain" or b'"%b"' % name.encode() in body[:LONGEST_LOOK]
        if is_named and kind in MAY_BE_JSON and body.startswith(b"{"):
            return None
        part = FormPart(name, body, kind.decode("latin-1"))
        values = {name: _value(part, needed[0], {name: needed[0]})}
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


def _form_values(parts: Sequence[FormPart], inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """The values of a form, of which a list may have several parts. Raises InvalidRequest."""
    declared = {tensor.name: tensor for tensor in inputs}
    values: dict[str, Any] = {}
    for part in parts:
        tensor = declared.get(part.name)
        value = _value(part, tensor, declared)
        if is_list(tensor) and not isinstance(value, list):
            values.setdefault(part.name, []).append(value)
        elif part.name in values:
            raise InvalidRequest(f'field "{part.name[:40]}" is given twice')
        else:
            values[part.name] = value
    return values


def _value(part: FormPart, tensor: MetadataTensor | None, declared: dict[str, MetadataTensor]) -> Any:
    if tensor is not None and _takes_file(tensor):
        return Upload(part.content, part.filename, part.media_type)
    is_text = tensor is not None and _takes_text(tensor)
    if len(part.content) > LONGEST_FIELD and not is_text:
        raise InvalidRequest(f'field "{part.name[:40]}" is longer than {LONGEST_FIELD} bytes')
    try:
        text = part.content.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f'field "{part.name[:40]}" is not UTF-8') from None
    if is_list(tensor) and text.startswith("["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            raise InvalidRequest(f'field "{part.name[:40]}" is not valid JSON') from None
    return value_of(part.name, text, declared)
