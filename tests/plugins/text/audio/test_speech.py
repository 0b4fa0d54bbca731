"""Which models speak or draw, and the bytes of their responses."""

from typing import Any

import pytest

from inferstream.errors import InvalidOutput
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.audio.speech import find_input, holds_picture, read_bytes
from inferstream.plugins.text.interface import holds_bytes
from inferstream.types import InferenceResponse, MetadataTensor, Parameters, ResponseOutput


def tensor(content: str, **more: Any) -> MetadataTensor:
    return MetadataTensor(
        name=content, datatype="BYTES", shape=[1], parameters=Parameters(content_type=content, **more)
    )


TEXT, FILE, IMAGE = tensor("str"), tensor("base64"), tensor("image")


@pytest.mark.parametrize(
    ("inputs", "outputs", "speaks", "draws"),
    [
        ((TEXT,), (FILE,), True, True),
        ((TEXT,), (IMAGE,), False, True),
        ((TEXT, tensor("str", optional=True)), (FILE,), True, True),
        ((TEXT, TEXT), (FILE,), False, False),
        ((FILE,), (FILE,), False, False),
        ((TEXT,), (TEXT,), False, False),
        ((TEXT,), (), False, False),
        (None, None, False, False),
    ],
)
def test_speech_and_image_models_are_detected(inputs: Any, outputs: Any, speaks: bool, draws: bool) -> None:
    signature = Signature(inputs, outputs)
    assert (find_input(signature, holds_bytes) is not None) is speaks
    assert (find_input(signature, holds_picture) is not None) is draws


def response(*values: Any) -> InferenceResponse:
    output = ResponseOutput(name="o", datatype="BYTES", shape=[len(values)], data=[*values])
    return InferenceResponse(model_name="m", outputs=[output])


def test_bytes_are_bytes_or_base64() -> None:
    assert read_bytes(response(b"a")) == read_bytes(response("YQ==")) == b"a"
    assert read_bytes(InferenceResponse(model_name="m", outputs=[])) == b""
    with pytest.raises(InvalidOutput, match="Model m answered no bytes"):
        read_bytes(response("no base64!"))
