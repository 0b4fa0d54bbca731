"""Pillow images, as the bytes of an image file."""

import base64
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import SingleValue, brief
from .scalars import bytes_of

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

FORMAT = "PNG"
"""The format of images that models return."""

PROGRAM = "EPS"
"""The format for which Pillow starts Ghostscript."""


class Image(SingleValue):
    """A `PIL.Image.Image` as one element of BYTES: a file of any format that Pillow reads, base64 in JSON."""

    datatype = "BYTES"
    content = "image"
    reads_apart = True

    def from_element(self, element: Any) -> "PillowImage":
        return open_image(bytes_of(element))

    def element(self, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if not hasattr(value, "save"):
            raise TypeError(f"takes an image, got {brief(value)}")
        file = io.BytesIO()
        value.save(file, FORMAT)
        return file.getvalue()

    def from_json(self, value: Any) -> "PillowImage":
        return open_image(bytes_of(value))

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        return [1], [bytes_of(value)]  # only the model's own process opens it

    def to_json(self, value: Any) -> str:
        return base64.b64encode(self.element(value)).decode()


def open_image(file: bytes) -> "PillowImage":
    """The decoded image of a file. Raises ValueError without the decoder's own words, which may hold addresses."""
    pillow: Any = import_module("PIL.Image")  # late: Pillow is an extra
    try:
        image: PillowImage = pillow.open(io.BytesIO(file))
        if (fault := _fault(image, pillow.MAX_IMAGE_PIXELS)) is None:
            image.load()
    except Exception as error:  # decoders raise anything for wrong files
        fault = type(error).__name__
    if fault is not None:
        raise ValueError(f"not an image that can be read ({fault})")
    return image


def _fault(image: "PillowImage", most: int | None) -> str | None:
    """Why an image must not be decoded, if there is a reason. Pillow itself refuses twice as many pixels as `most`."""
    if image.format == PROGRAM:
        return f"{PROGRAM} is a program, not pixels"
    if most and image.width * image.height > most:
        return f"it has more than {most} pixels"
    return None


def is_image(hint: Any) -> bool:
    """Whether `hint` is Pillow's class of images. Does not import Pillow."""
    return isinstance(hint, type) and hint.__module__.startswith("PIL.") and hint.__name__ == "Image"
