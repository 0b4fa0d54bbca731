"""What clients use, and the line of each operation in the audit log."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from inferstream.dataplane.call import Call, Handler, Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.metering import Metering
from inferstream.dataplane.proxies import Picked
from inferstream.dataplane.reply import Reply
from inferstream.dataplane.shares import Shares
from inferstream.errors import Abandoned, Draining, InferenceFailed, ModelError, ModelNotFound, Overloaded
from inferstream.keys.audit import AuditRecord
from inferstream.keys.counters import Counters
from inferstream.keys.errors import LimitExceeded
from inferstream.keys.principal import KeyLimits, Principal
from inferstream.keys.quotas import Quotas
from inferstream.keys.secret import new_key
from inferstream.telemetry.ends import kind_of_end
from inferstream.types import Headers, InferenceRequest, InferenceResponse, Parameters


class Audit:
    """Keeps the lines of the audit log."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def put(self, record: AuditRecord) -> None:
        self.records.append(record)


class Proxies:
    def client(self, headers: Headers) -> str:
        return "10.0.0.1"


def metering() -> tuple[Metering, list[AuditRecord]]:
    audit = Audit()
    return Metering(Quotas(Counters()), audit, Proxies()), audit.records  # type: ignore[arg-type]


def caller(**limits: Any) -> Caller:
    made = Caller(Headers(()), "v2")
    made.key = Principal("alice", "k1", ["infer"], ["*"], None, KeyLimits(**limits))
    return made


async def answer() -> str:
    return "done"


async def test_an_operation_is_a_line_with_its_principal() -> None:
    metered, records = metering()
    assert await metered.run("load", caller(), "m", 10, answer) == "done"
    (record,) = records
    assert (record.principal, record.key, record.peer, record.operation, record.model) == (
        *("alice", "k1", "10.0.0.1"),
        *("load", "m"),
    )
    assert (record.status, record.end, record.bytes) == (200, "success", 10)


async def test_an_operation_beyond_a_limit_is_refused_and_not_done() -> None:
    metered, records = metering()
    done: list[str] = []

    async def work() -> None:
        done.append("done")

    limited = caller(requests_per_second=0)
    with pytest.raises(LimitExceeded):
        await metered.run("load", limited, "m", 0, work)
    assert done == []
    assert [(record.status, record.end) for record in records] == [(429, "limit_exceeded")]


@pytest.mark.parametrize(
    ("error", "status", "end"),
    [
        (ModelNotFound("m"), 404, "not_found"),
        (ModelError("tea", status_code=418), 418, "invalid"),
        (ValueError("secret"), 500, "internal"),
        (asyncio.CancelledError(), 499, "cancelled"),
    ],
)
async def test_a_failure_is_a_line_with_its_status(error: BaseException, status: int, end: str) -> None:
    metered, records = metering()

    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await metered.run("load", caller(), "m", 0, fail)
    assert [(record.status, record.end) for record in records] == [(status, end)]


async def test_a_refusal_has_one_line_whoever_tells_of_it() -> None:
    metered, records = metering()
    refusal, made = Overloaded("full"), Caller(Headers(()), "v2")
    for _ in range(2):
        metered.refused("infer", made, "m", refusal)
    assert [(record.principal, record.status) for record in records] == [(None, 429)]


async def test_a_key_in_the_place_of_a_name_or_an_id_is_in_no_line() -> None:
    metering_, records = metering()
    key, client = new_key("abc"), caller()
    assert client.key is not None
    metering_.refused("infer", client, key, ModelNotFound(key))
    asked = Call(Operation.INFER, "m", None, InferenceRequest(id=key, inputs=[]), {})
    await metering_.open(answered(), asked, client, 0, client.key, 5)
    assert [(record.model, record.request_id) for record in records] == [("ifs_***", ""), ("m", "ifs_***")]


async def test_calls_that_end_by_the_same_error_have_a_line_each() -> None:
    metering_, records = metering()
    ended, client = Draining(), caller()

    async def stopped(call: Call) -> Reply:
        raise ended

    async def stop() -> None:
        raise ended

    assert client.key is not None
    with pytest.raises(Draining):
        await metering_.open(stopped, call(), client, 0, client.key, 5)
    with pytest.raises(Draining):
        await metering_.run("load", client, "m", 0, stop)
    metering_.refused("infer", caller(), "m", ended)
    assert [record.status for record in records] == [503] * 3


async def test_a_call_belongs_to_the_key_that_it_began_with() -> None:
    metering_, records = metering()
    client = caller()

    async def refused_meanwhile(call: Call) -> Reply:
        client.principal = client.key = None  # by a later request of the connection
        return await answered()(call)

    async def load() -> None:
        client.principal = client.key = None

    assert client.key is not None
    await metering_.open(refused_meanwhile, call(), client, 0, client.key, 5)
    client = caller()
    await metering_.run("load", client, "m", 0, load)
    assert [record.principal for record in records] == ["alice"] * 2


async def test_calls_in_flight_come_back_when_an_operation_fails() -> None:
    metered, _ = metering()

    async def fail() -> None:
        raise InferenceFailed("broken")

    limited = caller(in_flight=1)
    for _ in range(3):
        with pytest.raises(InferenceFailed):
            await metered.run("load", limited, "m", 0, fail)
    assert await metered.run("load", limited, "m", 0, answer) == "done"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, "success"),
        (Abandoned(), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (OSError(), "internal"),
        (Overloaded("full"), "overloaded"),
    ],
)
def test_the_end_of_a_call_is_a_word(error: BaseException | None, kind: str) -> None:
    assert kind_of_end(error) == kind


def call() -> Call:
    return Call(Operation.INFER, "m", None, InferenceRequest(id="1", inputs=[]), {})


def answered(**parameters: int) -> Handler:
    """A model whose answer tells its usage, if there are parameters."""

    async def handle(call: Call) -> Reply:
        told = Parameters(**parameters) if parameters else None
        return Reply(InferenceResponse(model_name="m", outputs=[], parameters=told))

    return handle


async def failing(call: Call) -> Reply:
    raise InferenceFailed("broken")


async def test_a_call_counts_with_its_tokens_and_bytes_however_it_ends() -> None:
    metering_, records = metering()
    who = caller()
    assert who.key is not None
    await metering_.open(answered(), call(), who, 10, who.key, 5)
    await metering_.open(answered(prompt_tokens=3, completion_tokens=4), call(), who, 20, who.key, 5)
    with pytest.raises(InferenceFailed):
        await metering_.open(failing, call(), who, 30, who.key, 5)
    metering_.quotas.tick()
    [(key, _, used)] = metering_.quotas.take_used()
    assert (key, used) == ("k1", (3, 0, 8, 60))
    assert [(each.tokens, each.bytes, each.status) for each in records] == [
        *((1, 10, 200), (7, 20, 200), (0, 30, 500)),
    ]


@pytest.mark.parametrize(
    ("handler", "used"),
    [(answered(), 1), (answered(completion_tokens=9), 9), (answered(completion_tokens=1), 1), (failing, 1)],
)
async def test_a_share_is_charged_with_what_a_call_has_used(handler: Handler, used: int) -> None:
    shares, metering_ = Shares(), metering()[0]

    async def charged(call: Call) -> Reply:
        shares.start(call)
        return await handler(call)

    named = caller()
    named.picked = Picked(fairness_id="team")
    for name, client in (("alice", caller()), ("team", named)):
        before = shares.flow(name, 5).used
        with suppress(InferenceFailed):
            assert client.key is not None
            await metering_.open(charged, call(), client, 0, client.key, 5)
        assert shares.flow(name, 5).used - before == used
        assert shares.flow(name, 5).usual == used


async def test_the_last_call_that_ended_is_the_usual_one() -> None:
    shares, metering_, client = Shares(), metering()[0], caller()

    async def beside_a_larger_one(call: Call) -> Reply:
        shares.start(call)
        shares.flow("alice", 5).usual = 500
        return await answered()(call)

    assert client.key is not None
    await metering_.open(beside_a_larger_one, call(), client, 0, client.key, 5)
    assert shares.flow("alice", 5).usual == 1
