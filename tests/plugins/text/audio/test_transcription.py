"""Which models transcribe, and what a form is."""

from typing import Any

import httpx
import pytest

from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.audio.transcription import find_audio_input, read_form
from inferstream.types import MetadataTensor, Parameters


def tensor(content: str | None = None, datatype: str = "BYTES", **more: Any) -> MetadataTensor:
    parameters = Parameters(**more, **({} if content is None else {"content_type": content}))
    return MetadataTensor(name=f"{content}", datatype=datatype, shape=[1], parameters=parameters)


AUDIO, TEXT, JSON = tensor("base64"), tensor("str"), tensor("json", schema="{}")


@pytest.mark.parametrize(
    ("inputs", "outputs", "hears"),
    [
        ((AUDIO,), (TEXT,), True),
        ((AUDIO,), (tensor(),), True),
        ((AUDIO,), (JSON,), True),
        ((tensor(datatype="INT64", optional=True), AUDIO), (TEXT,), True),
        ((AUDIO, TEXT), (TEXT,), False),
        ((TEXT,), (TEXT,), False),
        ((AUDIO,), (AUDIO,), False),
        ((AUDIO,), (TEXT, TEXT), False),
        ((AUDIO,), (), False),
        (None, None, False),
    ],
)
def test_transcription_models_are_detected(inputs: Any, outputs: Any, hears: bool) -> None:
    assert (find_audio_input(Signature(inputs, outputs)) is not None) is hears


def test_form_has_file_and_fields() -> None:
    asked = httpx.Request(
        "POST",
        "http://x",
        data={"model": "m", "include[]": ["a", "b"], "language": ""},
        files={"file": b"\x00"},
    )
    file, fields = read_form(asked.headers["content-type"].encode(), asked.read())
    assert (file, fields.text("model"), fields.items("include")) == (b"\x00", "m", ["a", "b"])


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ([("model", b"m")], "file: is missing"),
        ([("file", b"")], "file: is empty"),
        ([("file", b"a"), ("file", b"b")], "file: is given twice"),
        ([("file", b"a"), ("model", b"m"), ("model", b"n")], "model: is given twice"),
        ([("file", b"a"), ("prompt", b"\xff")], "prompt: is not UTF-8"),
        ([("file", b"a"), ("prompt", b"a" * 65_537)], "prompt: is longer than 65536 bytes"),
    ],
)
def test_invalid_forms(files: Any, sentence: str) -> None:
    asked = httpx.Request("POST", "http://x", files=files)
    with pytest.raises(InvalidRequest, match=sentence):
        read_form(asked.headers["content-type"].encode(), asked.read())
