"""Which calls count towards the times of a request."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Call, Operation, Reply
from inferstream.plugins.otel.timing import TimingEdge, time_calls
from inferstream.types import InferenceRequest, InferenceResponse


class Context:
    """An RPC that requests its times, or whose metadata cannot be read."""

    def __init__(self, readable: bool = True) -> None:
        self.trailing: dict[str, str] = {}
        self._readable = readable

    @property
    def metadata(self) -> Any:
        if not self._readable:
            raise InvalidRequest("not base64")
        return SimpleNamespace(find={"x-request-timing": "1"}.get)

    def add_trailing_metadata(self, metadata: Any) -> None:
        self.trailing.update(metadata)


def call_after(queue: float = 0.0, batch: float = 0.0) -> Call:
    call = Call(Operation.INFER, "m", None, InferenceRequest(inputs=[]), {})
    call.waited, call.batch_wait = queue, batch
    return call


async def answer(call: Call) -> Reply:
    return Reply(InferenceResponse(model_name="m", outputs=[]))


async def trailing(serve: Any) -> dict[str, float]:
    """The milliseconds by stage in the trailers of an RPC."""
    context = Context()
    try:
        await TimingEdge().rpc("/path", serve, True)(b"", context)
    except InvalidRequest:
        pass
    pairs = (each.split(";dur=") for each in context.trailing["server-timing"].split(", "))
    return {name: float(value) for name, value in pairs}


async def test_stages_of_several_calls_are_added() -> None:
    handle = time_calls(answer)

    async def serve(incoming: bytes | None, context: Any) -> None:
        await handle(call_after(queue=0.25))
        await handle(call_after(queue=0.25, batch=1.0))

    found = await trailing(serve)
    assert (found["queue"], found["batch"]) == (500.0, 1000.0)


async def test_models_that_a_model_calls_are_not_counted() -> None:
    callee = time_calls(answer)

    async def call_other(call: Call) -> Reply:
        return await callee(call_after(queue=1.0))

    async def serve(incoming: bytes | None, context: Any) -> None:
        await time_calls(call_other)(call_after())

    assert (await trailing(serve)).keys() == {"model", "write", "total"}


async def test_failed_call_has_time_in_queue() -> None:
    async def fail(call: Call) -> Reply:
        call.waited = 0.5
        raise InvalidRequest("bad")

    async def serve(incoming: bytes | None, context: Any) -> None:
        await time_calls(fail)(call_after())

    assert (await trailing(serve)).keys() == {"queue", "total"}


async def test_unreadable_metadata_and_other_rpcs_are_passed_on() -> None:
    async def serve(incoming: bytes | None, context: Any) -> bytes | None:
        return incoming

    assert TimingEdge().rpc("/path", serve, False) is serve
    context = Context(readable=False)
    assert await TimingEdge().rpc("/path", serve, True)(b"in", cast(Any, context)) == b"in"
    assert context.trailing == {}


@pytest.mark.parametrize("requested", [True, False])
async def test_only_requested_exchange_is_wrapped(requested: bool) -> None:
    headers = {b"x-request-timing": b"1"} if requested else {}
    exchange = SimpleNamespace(head=SimpleNamespace(find=headers.get), task=None)

    async def serve(served: Any, *_: Any) -> int:
        assert (served is not exchange) == requested
        assert served.task is None
        return 200

    assert await TimingEdge().http(serve)(exchange, None) == 200
