"""Uploaded files, as received and as objects such as Starlette's `UploadFile`."""

import io
from importlib import import_module
from typing import Any, NamedTuple

from ...types import RequestInput, ResponseOutput
from .base import fact
from .scalars import Binary

FILENAME, MEDIA_TYPE = "filename", "media_type"
"""Tensor parameters of a file."""


class Upload(NamedTuple):
    """An uploaded file, which is used in place of the base64 of its bytes."""

    content: bytes
    filename: str
    media_type: str

    def parameters(self) -> dict[str, Any]:
        """Return the tensor parameters of the file."""
        named = {FILENAME: self.filename, MEDIA_TYPE: self.media_type}
        return {name: value for name, value in named.items() if value}


class UploadedFile(Binary):
    """Encodes an `UploadFile` of Starlette or FastAPI as one BYTES element."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        types = import_module("starlette.datastructures")  # lazy, because workers start without it
        content = super().read(tensor)
        named = Upload(content, *(str(fact(tensor, name) or "") for name in (FILENAME, MEDIA_TYPE)))
        headers = types.Headers({"content-type": named.media_type} if named.media_type else {})
        return self._kind(io.BytesIO(content), size=len(content), filename=named.filename, headers=headers)


def is_upload_file(hint: Any) -> bool:
    """Whether `hint` is the upload class of Starlette or FastAPI. Does not import them."""
    known = ("starlette.datastructures", "fastapi.datastructures")
    return isinstance(hint, type) and hint.__module__ in known and hint.__name__ == "UploadFile"
