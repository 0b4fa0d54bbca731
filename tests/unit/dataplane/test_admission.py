"""What a door gets with admission to a model: its calls, with ids, headers, deadlines and priorities."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inferstream.dataplane.access import Authority
from inferstream.dataplane.admission import Admission
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.dataplane import DataPlane
from inferstream.dataplane.stages.live import Live
from inferstream.errors import Draining, InvalidRequest, ModelNotFound, Overloaded
from inferstream.handlers import HttpRequest, HttpResponse
from inferstream.plugins.cloudevents.events import CloudEvents
from inferstream.settings import Settings
from inferstream.signature import Signature
from inferstream.telemetry.access import AccessLines
from inferstream.types import Headers, InferenceRequest, MetadataTensor, Parameters


def request(**parameters: Any) -> InferenceRequest:
    return InferenceRequest(inputs=[], parameters=Parameters(**parameters) if parameters else None)


def caller(**given: Any) -> Caller:
    return Caller(Headers([("x-a", "1")]), "v2", principal="someone", **given)


def admission(served: Any, successor: Any = None) -> Admission:
    registry = SimpleNamespace(serving=successor, lines=AccessLines())
    return Admission(served, cast(Any, registry), "m", "2", caller())


def opened(asked: InferenceRequest, **given: Any) -> Call:
    """The call that the handler gets."""
    handled: list[Call] = []
    admitted = admission(served_by(handled, priority=5))
    admitted.caller = caller(**given)
    admitted.open(Operation.INFER, asked)
    return handled[0]


async def test_call_has_id_headers_and_model_priority() -> None:
    asked = request()
    call = opened(asked)
    assert (call.dialect, call.deadline, call.pace, call.task) == ("v2", None, 0.0, None)
    assert (call.model, call.version, call.principal, call.priority) == ("m", "2", "someone", 5)
    assert asked.id
    assert asked.parameters is not None
    assert asked.parameters.headers is not None
    assert asked.parameters.headers["x-a"] == "1"


async def test_request_values_override_transport_values() -> None:
    now = asyncio.get_running_loop().time()
    call = opened(request(priority=2, timeout=1_000_000), deadline=now + 60, priority=7)
    assert call.priority == 2
    assert call.deadline is not None
    assert call.deadline < now + 30
    with pytest.raises(InvalidRequest, match="priority"):
        opened(request(priority=-1))


def test_later_requests_get_cloudevents_headers() -> None:
    later = request()
    served = served_by([])
    served.pipeline.marks = CloudEvents("s")
    admission(served).identify(later)
    found = later.parameters
    assert found.headers is not None
    assert found.headers["Ce-Requestid"] == later.id


def plane(served: Any, draining: bool = False) -> DataPlane:
    registry = SimpleNamespace(serving=lambda *_: served, get=lambda *_: served, draining=draining)
    settings = Settings()
    return DataPlane(settings, cast(Any, registry), Authority(settings))


def test_full_queue_refuses_before_parsing() -> None:
    def check(model: str) -> None:
        raise Overloaded(f"{model} is full")

    with pytest.raises(Overloaded, match="m is full"):
        plane(SimpleNamespace(refuse=check, pipeline=None)).admit("m", None, caller())


async def read() -> HttpRequest:
    return HttpRequest("GET", "/custom", b"", [], b"")


async def write(response: HttpResponse, count: Callable[[int], None]) -> None:
    count(len(response.body))


async def test_custom_route_is_awaited_and_ended_like_inference() -> None:
    begun, live = asyncio.Event(), Live(cast(Any, None))

    async def ask(_: HttpRequest) -> None:
        begun.set()
        await asyncio.Event().wait()

    served = SimpleNamespace(live=live, execution=SimpleNamespace(call_route=ask))
    asking = asyncio.create_task(plane(served).call_route("m", read, write, caller()))
    await begun.wait()
    assert len(live.calls) == 1
    live.fail(Draining())
    with pytest.raises(Draining):
        await asking
    await live.wait_until_empty()
    with pytest.raises(Draining):
        await plane(served, draining=True).call_route("m", read, write, caller())


async def test_disconnect_cancels_custom_route() -> None:
    begun, live = asyncio.Event(), Live(cast(Any, None))

    async def ask(_: HttpRequest) -> None:
        begun.set()
        await asyncio.Event().wait()

    asking = asyncio.create_task(
        plane(SimpleNamespace(live=live, execution=SimpleNamespace(call_route=ask))).call_route(
            "m", read, write, caller()
        )
    )
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not live.calls


def served_by(handled: list[Call], withdrawn: bool = False, priority: int = 1) -> Any:
    pipeline = SimpleNamespace(marks=None)
    return SimpleNamespace(
        priority=priority, pace=0.0, handler=handled.append, withdrawn=withdrawn, pipeline=pipeline
    )


def test_replaced_model_gets_no_new_calls() -> None:
    old: list[Call] = []
    new: list[Call] = []
    first, second = served_by(old), served_by(new)
    admitted = admission(first, lambda *_: second)
    first.withdrawn = True
    admitted.open(Operation.INFER, request())
    assert (len(old), len(new)) == (0, 1)


def test_removed_model_refuses_calls() -> None:
    admitted = admission(served_by([], withdrawn=True), nobody)
    with pytest.raises(ModelNotFound):
        admitted.open(Operation.INFER, request())


def nobody(model: str, version: str | None, caller: object) -> Any:
    raise ModelNotFound(model, version)


async def test_end_without_calls_has_no_effect() -> None:
    handled: list[Call] = []
    admitted = admission(served_by(handled))
    admitted.end(Draining())
    admitted.open(Operation.INFER, request())
    assert handled[0].reason is None
    admitted.end(Draining())
    assert isinstance(handled[0].reason, Draining)


def test_invalid_parameter_is_logged_before_the_call_exists() -> None:
    records: list[Any] = []
    admitted = admission(served_by([]))
    lines = admitted._registry.lines
    lines.on, lines.put = True, records.append  # type: ignore[method-assign]
    with pytest.raises(InvalidRequest):
        admitted.open(Operation.STREAM, request(priority=-1))
    assert [(each.face, each.operation, each.model, each.principal) for each in records] == [
        ("v2", "stream", "m", "someone")
    ]


def reading(*inputs: MetadataTensor, takes_any: bool = False) -> Admission:
    execution = SimpleNamespace(signature=Signature(inputs))
    served = SimpleNamespace(pipeline=SimpleNamespace(takes_any=takes_any, execution=execution))
    return admission(served)


BODY = b'{"id": "a", "inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}]}'


def test_request_is_read_for_its_model() -> None:
    assert reading().read_request(BODY).id == "a"
    request = reading().read_request(BODY, "b")
    assert (request.id, request.inputs[0].name) == ("b", "x")
    with pytest.raises(InvalidRequest, match="printable"):
        reading().read_request(BODY, "a\nb")
    nested = BODY.replace(b"[1]}]", b'[1], "parameters": {"a": {}}}]')
    assert reading(takes_any=True).read_request(nested).inputs[0].parameters is not None
    with pytest.raises(InvalidRequest, match="must be a string, a number or a boolean"):
        reading().read_request(nested)


def test_values_become_declared_tensors() -> None:
    declared = MetadataTensor(name="x", datatype="FP32", shape=[-1])
    [tensor] = reading(declared).read_tensors({"x": [1, 2]})
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", "FP32", [2])
    rows = reading(declared).read_tensors([{"x": 1}, {"x": 2}])
    assert rows[0].shape == [2]
    [tensor] = reading().read_tensors({"y": 1})
    assert tensor.datatype == "INT64"
    with pytest.raises(InvalidRequest, match='row 1 has no "x"'):
        reading(declared).read_tensors([{"x": 1}, {}])
