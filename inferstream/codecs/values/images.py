"""Pillow images, sent as image files."""

import base64
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import SingleValue, format_brief
from .scalars import to_bytes

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

FORMAT = "PNG"
"""The format of images that models return."""

PROGRAM = "EPS"
"""The format for which Pillow starts Ghostscript."""


class Image(SingleValue):
    """Encodes a `PIL.Image.Image` as one BYTES element: a file that Pillow can read (base64 in JSON)."""

    datatype = "BYTES"
    content = "image"
    reads_apart = True

    def from_element(self, element: Any) -> "PillowImage":
        return open_image(to_bytes(element))

    def element(self, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if not hasattr(value, "save"):
            raise TypeError(f"takes an image, got {format_brief(value)}")
        file = io.BytesIO()
        value.save(file, FORMAT)
        return file.getvalue()

    def from_json(self, value: Any) -> "PillowImage":
        return open_image(to_bytes(value))

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        return [1], [to_bytes(value)]  # only the process of the model decodes it

    def to_json(self, value: Any) -> str:
        return base64.b64encode(self.element(value)).decode()


def open_image(file: bytes) -> "PillowImage":
    """Decode an image file. Raises ValueError without the decoder's message, which may contain addresses."""
    pillow: Any = import_module("PIL.Image")  # lazy, because Pillow is an extra
    try:
        image: PillowImage = pillow.open(io.BytesIO(file))
        if (fault := _fault(image, pillow.MAX_IMAGE_PIXELS)) is None:
            image.load()
    except Exception as error:  # decoders can raise any exception for invalid files
        fault = type(error).__name__
    if fault is not None:
        raise ValueError(f"not an image that can be read ({fault})")
    return image


def _fault(image: "PillowImage", most: int | None) -> str | None:
    """Return the reason not to decode an image, or None.

    Pillow itself would allow twice as many pixels as `most`.
    """
    if image.format == PROGRAM:
        return f"{PROGRAM} is a program, not pixels"
    if most and image.width * image.height > most:
        return f"it has more than {most} pixels"
    return None


def is_image(hint: Any) -> bool:
    """Whether `hint` is the image class of Pillow. Does not import Pillow."""
    return isinstance(hint, type) and hint.__module__.startswith("PIL.") and hint.__name__ == "Image"
