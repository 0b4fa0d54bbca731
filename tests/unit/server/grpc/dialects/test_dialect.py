"""A request of a stream, and the refusal that its dialect tells."""

from typing import NoReturn

import pytest

from inferstream.dataplane.caller import Caller
from inferstream.errors import InvalidRequest, ModelNotFound, Overloaded
from inferstream.server.grpc import stream
from inferstream.server.grpc.dialects.dialect import StreamRequest
from inferstream.types import Headers

from ..test_stream import Defaults, Exchange, FullDataPlane, message


def test_stream_without_model_name_is_refused() -> None:
    class Unnamed(FullDataPlane):
        def admit(self, model: str, *_: object) -> NoReturn:
            raise ModelNotFound(model)

    request = StreamRequest(message(), Unnamed(), Caller(Headers(()), "grpc"))
    with pytest.raises(InvalidRequest, match='"model_name" is missing'):
        request.admitted()


async def test_admission_error_is_raised_when_the_dialect_requests_admission() -> None:
    dataplane = FullDataPlane()
    request = StreamRequest(message(model_name="m"), dataplane, Caller(Headers(()), "grpc"))
    assert dataplane.refusals == [("grpc", "stream")]
    assert request.admission is None
    with pytest.raises(Overloaded, match="full"):
        request.admitted()
    with pytest.raises(Overloaded, match="full"):
        await stream.StreamService(FullDataPlane(), Defaults()).ModelStreamInfer(Exchange(request.message))
