"""Images, which only the model opens."""

import base64
import struct

import pytest

from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError

from .samples import through_binary


def test_images_round_trip_and_are_decoded_by_the_model() -> None:
    pillow = pytest.importorskip("PIL.Image")
    image = pillow.new("RGB", (3, 2), (9, 8, 7))
    value = value_for(pillow.Image)
    tensor = value.encode_input("x", image)
    assert value.decode_input(through_binary(tensor)).getpixel((0, 0)) == (9, 8, 7)
    flat = value.input_from_flat("x", value.to_json(image))
    assert value.decode_input(flat).size == (3, 2)
    images = value_for(list[pillow.Image])
    several = images.encode_input("x", [image, image])
    assert several.shape == [2]
    assert images.decode_input(through_binary(several))[1].size == (3, 2)
    no_image = value.input_from_flat("x", "aGVsbG8=")
    with pytest.raises(CodecError, match="not an image"):
        value.decode_input(no_image)


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize(
    ("file", "fault"),
    [
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 3 3\n%%EndComments\n%%EOF\n", "EPS is a program"),
        (b"P5 4 4 255 " + bytes(16), "more than 15 pixels"),
        (b"DDS " + struct.pack("<7I44x8I20x", 124, 0, 1, 1, 0, 0, 0, 32, 1, 0, 0, 0, 0, 0, 0), "Error"),
    ],
)
def test_decompression_bomb_images_are_refused(
    file: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 15)
    value = value_for(pillow.Image)
    with pytest.raises(CodecError, match=rf'input "x": not an image that can be read \(.*{fault}'):
        value.decode_input(value.input_from_flat("x", base64.b64encode(file).decode()))
