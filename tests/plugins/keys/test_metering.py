"""What clients use, and the line of each operation in the audit log."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from inferstream.errors import Abandoned, Draining, InferenceFailed, ModelError, ModelNotFound, Overloaded
from inferstream.ext.calls import Call, Caller, Handler, Operation, Reply
from inferstream.ext.telemetry import kind_of_end
from inferstream.plugins.keys.audit import AuditRecord
from inferstream.plugins.keys.counters import Counters
from inferstream.plugins.keys.errors import LimitExceeded
from inferstream.plugins.keys.metering import Metering
from inferstream.plugins.keys.principal import KeyLimits, Principal
from inferstream.plugins.keys.proxies import Picked
from inferstream.plugins.keys.quotas import Quotas
from inferstream.plugins.keys.secret import new_key
from inferstream.plugins.keys.shares import Shares
from inferstream.types import Headers, InferenceRequest, InferenceResponse, Parameters


class Audit:
    """Keeps the lines of the audit log."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def put(self, record: AuditRecord) -> None:
        self.records.append(record)


class Proxies:
    def find_client(self, headers: Headers) -> str:
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


async def test_operation_is_logged_with_principal() -> None:
    metered, records = metering()
    assert await metered.run("load", caller(), "m", 10, answer) == "done"
    (record,) = records
    assert (record.principal, record.key, record.peer, record.operation, record.model) == (
        *("alice", "k1", "10.0.0.1"),
        *("load", "m"),
    )
    assert (record.status, record.end, record.bytes) == (200, "success", 10)


async def test_operation_over_limit_is_refused_and_not_executed() -> None:
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
async def test_failure_is_logged_with_status(error: BaseException, status: int, end: str) -> None:
    metered, records = metering()

    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await metered.run("load", caller(), "m", 0, fail)
    assert [(record.status, record.end) for record in records] == [(status, end)]


async def test_refusal_is_logged_once() -> None:
    metered, records = metering()
    refusal, made = Overloaded("full"), Caller(Headers(()), "v2")
    for _ in range(2):
        metered.record_rejection("infer", made, "m", refusal)
    assert [(record.principal, record.status) for record in records] == [(None, 429)]


async def test_key_used_as_name_or_id_is_not_logged() -> None:
    metering_, records = metering()
    key, client = new_key("abc"), caller()
    assert client.key is not None
    metering_.record_rejection("infer", client, key, ModelNotFound(key))
    asked = Call(Operation.INFER, "m", None, InferenceRequest(id=key, inputs=[]), {})
    await metering_.open(answered(), asked, client, 0, client.key, 5)
    assert [(record.model, record.request_id) for record in records] == [("ifs_***", ""), ("m", "ifs_***")]


async def test_calls_with_same_error_are_logged_separately() -> None:
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
    metering_.record_rejection("infer", caller(), "m", ended)
    assert [record.status for record in records] == [503] * 3


async def test_call_belongs_to_key_it_started_with() -> None:
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


async def test_failed_operation_releases_calls_in_flight() -> None:
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
def test_outcome_is_a_word(error: BaseException | None, kind: str) -> None:
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


async def test_tokens_and_bytes_count_for_every_outcome() -> None:
    metering_, records = metering()
    who = caller()
    assert who.key is not None
    await metering_.open(answered(), call(), who, 10, who.key, 5)
    await metering_.open(answered(prompt_tokens=3, completion_tokens=4), call(), who, 20, who.key, 5)
    with pytest.raises(InferenceFailed):
        await metering_.open(failing, call(), who, 30, who.key, 5)
    metering_.quotas.tick()
    [(key, _, used)] = metering_.quotas.take_usage()
    assert (key, used) == ("k1", (3, 0, 8, 60))
    assert [(each.tokens, each.bytes, each.status) for each in records] == [
        *((1, 10, 200), (7, 20, 200), (0, 30, 500)),
    ]


@pytest.mark.parametrize(
    ("handler", "used"),
    [(answered(), 1), (answered(completion_tokens=9), 9), (answered(completion_tokens=1), 1), (failing, 1)],
)
async def test_share_is_charged_with_usage(handler: Handler, used: int) -> None:
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


async def test_last_finished_call_predicts_cost() -> None:
    shares, metering_, client = Shares(), metering()[0], caller()

    async def beside_a_larger_one(call: Call) -> Reply:
        shares.start(call)
        shares.flow("alice", 5).usual = 500
        return await answered()(call)

    assert client.key is not None
    await metering_.open(beside_a_larger_one, call(), client, 0, client.key, 5)
    assert shares.flow("alice", 5).usual == 1
