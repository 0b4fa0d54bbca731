"""A request of a stream, and the refusal that its dialect tells."""

import pytest

from inferstream.dataplane.caller import Caller
from inferstream.errors import Overloaded
from inferstream.server.grpc import stream
from inferstream.server.grpc.dialects.dialect import StreamRequest
from inferstream.types import Headers

from ..test_stream import Defaults, Exchange, FullDataPlane, message


async def test_a_refusal_is_raised_where_a_dialect_asks_for_the_admission() -> None:
    dataplane = FullDataPlane()
    request = StreamRequest(message(model_name="m"), dataplane, Caller(Headers(()), "grpc"))
    assert dataplane.refusals == [("grpc", "stream")]
    assert request.admission is None
    with pytest.raises(Overloaded, match="full"):
        request.admitted()
    with pytest.raises(Overloaded, match="full"):
        await stream.StreamService(FullDataPlane(), Defaults()).ModelStreamInfer(Exchange(request.message))
