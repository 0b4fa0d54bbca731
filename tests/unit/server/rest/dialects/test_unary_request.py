"""Responses of several requests to a model, written as one."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from inferstream.dataplane.admission import Admission
from inferstream.dataplane.call import Operation
from inferstream.errors import InferenceFailed
from inferstream.server.rest.dialects.unary_request import UnaryRequest
from inferstream.types import InferenceRequest, InferenceResponse


class Ids(UnaryRequest):
    """Written as the ids of the responses."""

    def written(self, responses: Sequence[InferenceResponse]) -> Any:
        return [], " ".join(str(response.id) for response in responses).encode()


class Opening:
    """An admission, and one to several calls, that keep what they open."""

    grouped: "Opening"

    def group(self) -> "Opening":
        self.grouped = Opening()
        return self.grouped

    async def open(self, *asked: Any) -> Any:
        return self, asked


def asked(*ids: str, admission: Any = None) -> Ids:
    return Ids(cast(Admission, admission), [InferenceRequest(id=id, inputs=[]) for id in ids])


def response(id: str) -> InferenceResponse:
    return InferenceResponse(id=id, model_name="m", outputs=[])


def test_responses_are_in_request_order() -> None:
    several = asked("a", "b", "c")
    gathering = several.gathering()
    assert all(gathering.add(response(id)) for id in "cab")
    assert gathering.end() == ([], b"a b c")
    assert asked("a").response(response("a")) == ([], b"a")


async def test_single_request_is_one_call_and_several_open_together() -> None:
    admission = Opening()
    single, several = asked("a", admission=admission), asked("a", "b", admission=admission)
    assert (single.operation, several.operation) == (Operation.INFER, Operation.STREAM)
    assert await single.open() == (admission, (Operation.INFER, single.request))
    opener, opened = await several.open()
    assert opener is admission.grouped
    assert opened == (Operation.INFER, several.requests)


def test_streaming_is_not_supported() -> None:
    with pytest.raises(NotImplementedError):
        asked("a").events()
    with pytest.raises(NotImplementedError):
        asked("a").failure(InferenceFailed("broken"))
