"""Items of a model as a transcript, and as subtitles."""

from typing import Any

import orjson
import pytest

from inferstream.errors import InvalidOutput
from inferstream.plugins.text.audio.transcript import Segment, Transcript, write_subtitles
from inferstream.types import InferenceResponse, ResponseOutput

ONE, TWO = {"start": 0, "end": 1.5, "text": "one"}, {"start": 1.5, "end": 2, "text": " two"}


def response(*values: Any) -> InferenceResponse:
    texts = [orjson.dumps(value).decode() for value in values]
    output = ResponseOutput(name="o", datatype="BYTES", shape=[len(texts)], data=texts)
    return InferenceResponse(model_name="m", outputs=[output])


@pytest.mark.parametrize(
    ("items", "text", "segments"),
    [
        (["one", " two"], "one two", 0),
        ([ONE, TWO], "one two", 2),
        ([[ONE, TWO]], "one two", 2),
        ([{"segments": [ONE, TWO]}], "one two", 2),
        ([{"segments": [ONE, TWO], "text": "One two."}], "One two.", 2),
        ([{"text": "a"}, {"text": "b"}], "ab", 0),
        ([], "", 0),
    ],
)
def test_item_formats(items: list[Any], text: str, segments: int) -> None:
    transcript = Transcript("m", json=True)
    assert "".join(transcript.add(response(item)) for item in items) == text
    assert (transcript.text, len(transcript.segments)) == (text, segments)


@pytest.mark.parametrize(
    "item",
    [
        3,
        None,
        {},
        {"start": 0, "end": 1},
        [{"text": "a"}],
        {"segments": "a"},
        {"segments": [3]},
        {**ONE, "end": "soon"},
        {**ONE, "end": "inf"},
    ],
)
def test_invalid_transcript_is_model_error(item: Any) -> None:
    with pytest.raises(InvalidOutput, match="Model m answered no transcript"):
        Transcript("m", json=True).add(response(item))


def test_response_without_outputs_has_no_text() -> None:
    assert Transcript("m", json=False).add(InferenceResponse(model_name="m", outputs=[])) == ""


def test_text_cannot_end_subtitle_cue() -> None:
    segments = [Segment(-1, 59.9996, "a\n\n2\n00:00 --> b", {}), Segment(360_000, 360_001, "c", {})]
    assert write_subtitles(segments, web=False) == (
        "1\n00:00:00,000 --> 00:01:00,000\na 2 00:00 -> b\n\n2\n100:00:00,000 --> 100:00:01,000\nc\n"
    )
    assert write_subtitles([], web=True) == "WEBVTT\n\n"
