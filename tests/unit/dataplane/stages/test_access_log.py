"""A record for each call, as its client sees its end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inferstream import App, testing
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.reply import Reply
from inferstream.dataplane.stages.access_log import AccessLog, build_record, log_rejection
from inferstream.errors import Abandoned, InferenceFailed, ModelNotFound, Overloaded
from inferstream.plugins.keys.secret import new_key
from inferstream.telemetry.access import AccessLines, AccessRecord
from inferstream.types import Headers, InferenceRequest


@pytest.fixture
def lines() -> tuple[AccessLines, list[AccessRecord]]:
    """Where records go, and those that came."""
    made, records = AccessLines(), []
    made.add(records.append)
    return made, records


def call(operation: Operation = Operation.INFER, **fields: Any) -> Call:
    made = Call(operation, "m", None, InferenceRequest(id="i", inputs=[]), {})
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InferenceFailed("broken"), "internal", "broken"),
        (Overloaded("full"), "overloaded", "full"),
        (ValueError("secret"), "internal", ""),
        (asyncio.CancelledError(), "cancelled", ""),
        (Abandoned(), "cancelled", Abandoned().message),
    ],
)
async def test_failed_call_is_recorded_with_its_outcome(
    lines: Any, error: BaseException, status: str, message: str
) -> None:
    async def fail(call: Call) -> Reply:
        raise error

    with pytest.raises(type(error)):
        await AccessLog(fail, lines[0])(call())
    (record,) = lines[1]
    assert (record.status, record.error, record.items, record.operation) == (status, message, 0, "infer")


def test_record_has_trace_id() -> None:
    traced = call(trace={"traceparent": "00-0af7-b7ad-01"})
    assert build_record(traced, 0.0, 1, None).trace_id == "0af7"
    for without in (call(trace={}), call(trace={"traceparent": "rubbish"}), call()):
        assert build_record(without, 0.0, 1, None).trace_id == ""


async def test_refused_call_is_recorded_while_log_has_a_reader(lines: Any) -> None:
    caller = Caller(Headers(()), "v2")
    log_rejection(AccessLines(), caller, "infer", "m", Overloaded("full"), None)
    log_rejection(lines[0], caller, "infer", "m", Overloaded("full"), None)
    (record,) = lines[1]
    assert (record.face, record.model, record.status, record.seconds) == ("v2", "m", "overloaded", 0.0)


async def test_key_in_place_of_name_or_id_is_not_recorded(lines: Any) -> None:
    key = new_key("abc")
    log_rejection(lines[0], Caller(Headers(()), "v2"), "infer", key, ModelNotFound(key), None)
    (record,) = lines[1]
    assert (record.model, record.error) == ("ifs_***", "Model ifs_*** not found")
    asked = call()
    asked.request.id = key
    assert build_record(asked, 0.0, 1, None).id == "ifs_***"


async def test_stream_is_recorded_once_at_its_end_with_item_count() -> None:
    app = App()

    @app.model
    async def count(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number
            if number == 3:
                raise RuntimeError("broken")

    async with testing.run(app, access_log=True) as client:
        records: list[AccessRecord] = []
        client.application._backend.registry.lines.add(records.append)
        assert len([each async for each in client.stream("count", n=3)]) == 3
        with pytest.raises(InferenceFailed):
            _ = [each async for each in client.stream("count", n=9)]
        leaving = client.stream("count", n=3)
        await anext(leaving)
        await leaving.aclose()
    assert [(record.operation, record.items, record.status) for record in records] == [
        ("stream", 3, "success"),
        ("stream", 4, "internal"),
        ("stream", 1, "cancelled"),
    ]
