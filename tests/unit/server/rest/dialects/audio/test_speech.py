"""Which models speak or draw, and the bytes of their responses."""

from typing import Any

import pytest

from inferstream.errors import InvalidOutput
from inferstream.server.rest.dialects.audio.speech import bytes_of, holds_picture, made_of
from inferstream.signature import Signature
from inferstream.text.interface import holds_bytes
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
def test_which_models_speak_and_draw(inputs: Any, outputs: Any, speaks: bool, draws: bool) -> None:
    signature = Signature(inputs, outputs)
    assert (made_of(signature, holds_bytes) is not None) is speaks
    assert (made_of(signature, holds_picture) is not None) is draws


def response(*values: Any) -> InferenceResponse:
    output = ResponseOutput(name="o", datatype="BYTES", shape=[len(values)], data=[*values])
    return InferenceResponse(model_name="m", outputs=[output])


def test_bytes_are_bytes_or_base64() -> None:
    assert bytes_of(response(b"a")) == bytes_of(response("YQ==")) == b"a"
    assert bytes_of(InferenceResponse(model_name="m", outputs=[])) == b""
    with pytest.raises(InvalidOutput, match="Model m answered no bytes"):
        bytes_of(response("no base64!"))
