"""Messages written from what the last one left are the bytes that writing each by itself gives."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.errors import InvalidOutput
from inferstream.protos.grpc_messages import MAX_SIZES, MessageWriter
from inferstream.protos.grpc_responses import WRITERS, WholeMessages
from inferstream.types import InferenceResponse, Parameters, ResponseOutput
from inferstream.types.forms import OutputForm
from inferstream.types.inference import respond

FORM = OutputForm("m", "1", "text", "BYTES", (1,))
NUMBER = OutputForm("m", "1", "number", "INT64", (1,))


def response(*outputs: ResponseOutput, **fields) -> InferenceResponse:
    return InferenceResponse(model_name=fields.pop("model_name", "m"), outputs=list(outputs), **fields)


def text(values: list, name: str = "token", **fields) -> ResponseOutput:
    return ResponseOutput(name=name, shape=[len(values)], datatype="BYTES", data=values, **fields)


class Subclass(InferenceResponse):
    pass


VARIANTS = [
    response(text(["a"])),
    response(text(["b"])),
    response(text([""])),
    response(text(["é"])),
    response(text([b"\xff\x00"])),
    response(text(["a" * 200])),
    response(text(["b" * 20_000])),
    response(text([None])),
    response(text([])),
    response(text(["a", "b"])),
    response(ResponseOutput(name="token", shape=[1, 1], datatype="BYTES", data=[["a"]])),
    response(ResponseOutput(name="token", shape=[1, 1], datatype="BYTES", data=["a"])),
    response(ResponseOutput(name="token", shape=[1], datatype="BYTES", data=np.array(["a"], object))),
    response(text(["a"], name="other")),
    response(text(["a"]), id="1"),
    response(text(["a"]), id="2"),
    response(text(["a"]), model_name="n"),
    response(text(["a"]), model_version="2"),
    response(text(["a"], parameters=Parameters(score=0.5))),
    response(text(["a"], parameters=Parameters(score=0.7))),
    response(text(["a"], parameters=Parameters())),
    response(text(["a"]), parameters=Parameters(done=True)),
    response(StringCodec.encode_output("token", ["a"])),
    response(StringCodec.encode_output("token", ["b"])),
    response(text(["a"]), text(["b"], "second")),
    response(),
    response(NumpyCodec.encode_output("token", np.array([[1.5]], np.float32))),
    response(NumpyCodec.encode_output("token", np.array([[1.5]], np.float16))),
    Subclass(model_name="m", outputs=[text(["a"])]),
    respond(FORM, "a", "1"),
    respond(FORM, "b", "1"),
    respond(FORM, b"\xff", "2"),
    respond(OutputForm("m", "1", "other", "BYTES", (1,)), "a", "1"),
    respond(NUMBER, 3, "1"),
    respond(NUMBER, -3, "1"),
]


def check(stream: Sequence[InferenceResponse], typed: bool) -> None:
    writer = MessageWriter(typed)
    assert [each.accept(writer) for each in stream] == [each.accept(WRITERS[typed]) for each in stream]


@pytest.mark.parametrize("typed", [False, True])
def test_message_does_not_depend_on_the_previous_one(typed: bool) -> None:
    for before, after in product(VARIANTS, repeat=2):
        check([before, after, before], typed)


@given(st.lists(st.sampled_from(VARIANTS), max_size=30), st.booleans())
def test_message_does_not_depend_on_many_previous_ones(stream: list[InferenceResponse], typed: bool) -> None:
    check(stream, typed)


def test_text_message_prefix_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[InferenceResponse] = []

    def tensors(self: WholeMessages, response: InferenceResponse) -> bytes:
        written.append(response)
        return whole(self, response)

    whole = WholeMessages.tensors
    monkeypatch.setattr(WholeMessages, "tensors", tensors)
    writer = MessageWriter(True)
    stream = [response(text([item]), id="1") for item in ("a", "b", "cc", "a", "dd", "é")]
    for item in stream:
        item.accept(writer)
    assert written == [stream[0], stream[2]]


@pytest.mark.parametrize("typed", [False, True])
def test_message_prefixes_are_cached_for_few_sizes(typed: bool) -> None:
    writer = MessageWriter(typed)
    sizes = [*range(3 * MAX_SIZES), *range(3 * MAX_SIZES)]
    for size in sizes:
        item = response(text(["x" * size]), id="1")
        assert item.accept(writer) == item.accept(WRITERS[typed])
        assert len(writer._before) <= MAX_SIZES
    assert writer._before


def test_shape_changed_in_place_is_written_correctly() -> None:
    writer = MessageWriter(True)
    item = response(text(["a"]))
    item.accept(writer)
    item.outputs[0].shape.append(1)
    whole = WRITERS[True]
    assert item.accept(writer) == item.accept(whole) != response(text(["a"])).accept(whole)


def test_invalid_unicode_is_refused_by_name() -> None:
    writer = MessageWriter(True)
    for item in (response(text(["\ud800"])), respond(FORM, "\ud800", None)):
        with pytest.raises(InvalidOutput, match="cannot be written"):
            item.accept(writer)
