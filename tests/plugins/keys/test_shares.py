"""Principals share a model by tokens, whatever they ask for at once and however long their answers are."""

import asyncio
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inferstream import Application, Finished, MLModel, ModelSettings, StepModel
from inferstream.errors import ModelError
from inferstream.ext.calls import Call, Caller, Operation
from inferstream.plugins.keys import shares
from inferstream.plugins.keys.shares import SHARE, FairQueue, Share, Shares, find_share
from inferstream.types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
)


class Gateway:
    peer = "ipv4:10.0.0.1:5000"
    identities: tuple[str, ...] = ()


NAMES = [f"team-{number}" for number in range(32)]


def jain(used: Sequence[float]) -> float:
    """Jain's index of fairness: 1 where all have the same, 1/n where one has all."""
    return sum(used) ** 2 / (len(used) * sum(each * each for each in used))


def call_of(name: str, priority: int = 5) -> Call:
    call = Call(Operation.INFER, "m", None, InferenceRequest(inputs=[]), {}, priority=priority)
    SHARE.set(call, Share(name))
    return call


def pop(queue: FairQueue[Call], tokens: int = 1) -> str:
    """Whose turn it is; its call ends at once with so many tokens."""
    call = queue.pop()
    find_share(call).end(tokens)
    return find_share(call).name


def queue_of(*calls: Call) -> FairQueue[Call]:
    queue: FairQueue[Call] = FairQueue(1.0, Shares())
    for now, call in enumerate(calls):
        queue.add(call, call, now / 1000)
    return queue


def test_equal_calls_alternate_and_keep_order_per_principal() -> None:
    calls = [call_of(name) for name in "aaaabbc"]
    queue = queue_of(*calls)
    assert [calls.index(queue.pop()) for _ in calls] == [0, 4, 6, 1, 5, 2, 3]
    assert not queue


def test_heavier_users_wait_longer() -> None:
    queue, tokens = queue_of(*map(call_of, "aaaaaaaaaabbbbbbbbbb")), {"a": 9, "b": 3}
    order = ""
    for _ in range(12):
        call = queue.pop()
        find_share(call).end(tokens[find_share(call).name])
        order += find_share(call).name
    assert order.count("b") == 9, order


def test_idle_principal_accumulates_no_credit() -> None:
    queue = queue_of(*map(call_of, "ab"))
    pop(queue, 100), pop(queue, 1)
    for _ in range(5):
        for name in "bc":
            call = call_of(name)
            queue.add(call, call, 1.0)
        assert {pop(queue, 10), pop(queue, 10)} == {"b", "c"}
    for name in "abcd":
        for _ in range(4):
            call = call_of(name)
            queue.add(call, call, 1.0)
    order = [pop(queue, 10) for _ in range(16)]
    assert order[:9].count("d") == 3, (
        "a new one is served as the others, not for all the time that it was away"
    )
    assert "a" not in order[:8], order
    assert order.count("a") == 4


def test_usage_without_contention_is_not_charged() -> None:
    queue = queue_of()
    for _ in range(1000):
        call = call_of("a")
        queue.add(call, call, 0.0)
        pop(queue, 1000)
    for name in "aaabbb":
        call = call_of(name)
        queue.add(call, call, 1.0)
    order = [pop(queue, 1000) for _ in range(6)]
    assert order[:4].count("a") == 2, order


def test_priorities_precede_shares() -> None:
    queue = queue_of(
        *(call_of(name, priority) for name, priority in [("a", 9), ("b", 5), ("a", 1), ("b", 1)])
    )
    assert [pop(queue, 1000) for _ in range(4)] == ["a", "b", "b", "a"]


def test_low_priority_calls_are_served_fairly() -> None:
    queue = queue_of(*(call_of("greedy", 9) for _ in range(100)), call_of("modest", 9))
    overtaken = 0
    while True:
        urgent = call_of("urgent", 1)
        queue.add(urgent, urgent, overtaken * 0.1)
        if pop(queue, 1000) == "modest":
            break
        overtaken += 1
    assert overtaken < 90


def test_cancelled_queued_call_is_not_charged() -> None:
    calls = [call_of(name) for name in "aabb"]
    queue = queue_of(*calls)
    queue.remove(calls[0], calls[0])
    find_share(calls[0]).end(0)
    queue.remove(calls[0], calls[0])
    assert [pop(queue) for _ in range(3)] == ["a", "b", "b"]
    assert not queue


def test_failed_call_is_charged() -> None:
    queue = queue_of(*map(call_of, "aaabbb"))
    assert [pop(queue, 0) for _ in range(6)] == ["a", "b"] * 3


def test_many_names_use_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MAX_FLOWS", 8)
    known = Shares()
    queue: FairQueue[Call] = FairQueue(1.0, known)
    for number in range(100):
        call = call_of(str(number))
        queue.add(call, call, 0.0)
        pop(queue)
    assert len(known.lanes[5].flows) <= 8


def ranked(name: str, rank: int, priority: int = 5) -> Call:
    call = call_of(name, priority)
    find_share(call).rank = rank
    return call


def test_ranks_order_only_calls_of_one_principal() -> None:
    calls = [ranked(*each) for each in (("a", 5), ("a", 9), ("b", 5), ("a", 1), ("b", 5), ("a", 1))]
    queue = queue_of(*calls)
    assert [calls.index(queue.pop()) for _ in calls] == [3, 2, 5, 4, 0, 1]
    assert not queue


def test_rank_ages_like_priority() -> None:
    queue: FairQueue[Call] = FairQueue(1.0, Shares())
    old, new = ranked("a", 9), ranked("a", 1)
    queue.add(old, old, 0.0)
    queue.add(new, new, 8.5)
    assert queue.pop() is old


def test_ranked_call_can_leave_queue() -> None:
    calls = [ranked("a", 9), ranked("a", 1), ranked("b", 0)]
    queue = queue_of(*calls)
    queue.remove(calls[1], calls[1])
    queue.remove(calls[1], calls[1])
    assert [calls.index(queue.pop()) for _ in range(2)] == [0, 2]
    assert not queue


@pytest.mark.parametrize(
    ("asked", "granted", "priority"),
    [
        (1, 0, 5),
        (5, 0, 5),
        (9, 0, 5),
        (1, 2, 2),
        (3, 2, 3),
        (5, 2, 5),
        (9, 2, 5),
        (1, 8, 8),
        (5, 8, 8),
        (9, 8, 8),
    ],
)
def test_priority_is_capped(asked: int, granted: int, priority: int) -> None:
    assert shares.shared_priority(asked, granted, 5) == priority


class Counting(StepModel):
    """Streams so many tokens as a request asks for, and counts them by the team that it names."""

    used: Counter[str]
    steps = 0
    last = 0
    over: asyncio.Event

    async def admit(self, payload: InferenceRequest) -> list[Any]:
        return [str(payload.id), payload.inputs[0].data.flat()[0]]

    async def step(self, states: Sequence[list[Any]]) -> list[Any]:
        self.steps += 1
        if self.steps == self.last:
            self.over.set()
        emissions: list[Any] = []
        for state in states:
            state[1] -= 1
            self.used[state[0]] += not self.over.is_set()
            response = InferenceResponse(model_name=self.name, outputs=[])
            emissions.append(response if state[1] else Finished(response))
        return emissions


def request_of(name: str, tokens: int) -> InferenceRequest:
    return InferenceRequest(
        id=name, inputs=[RequestInput(name="n", datatype="INT64", shape=[1], data=[tokens])]
    )


@asynccontextmanager
async def counting(
    steps: int, max_concurrency: int | None = None, **settings: Any
) -> AsyncIterator[tuple[Application, Counting]]:
    model = Counting(
        ModelSettings(
            name="m",
            implementation=Counting,
            max_active=8,
            max_concurrency=max_concurrency,
            loop="server",
            max_queue=4096,
        )
    )
    model.used, model.over, model.last = Counter(), asyncio.Event(), steps
    async with Application(model, **settings) as application:
        yield application, model


async def ask_on(
    application: Application, headers: list[tuple[bytes, bytes]], name: str, tokens: int, calls: int
) -> None:
    """Stream again and again, each time so many requests in one call."""
    while True:
        caller = Caller(Headers(headers, None, Gateway()), "http")
        admission = application.models.admit("m", None, caller)
        more = None if calls == 1 else repeated(name, tokens, calls - 1)
        async with await admission.open(Operation.STREAM, request_of(name, tokens), more) as reply:
            async for _ in reply:
                pass


async def repeated(name: str, tokens: int, times: int) -> AsyncIterator[InferenceRequest]:
    for _ in range(times):
        yield request_of(name, tokens)


async def used_by_all(
    steps: int,
    asking: dict[str, tuple[list[tuple[bytes, bytes]], int, int]],
    calls: int = 1,
    **settings: Any,
):
    """Tokens of each name in so many steps. Each asks with its headers, for so many tokens, so often at once."""
    async with counting(steps, **settings) as (application, model):
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(ask_on(application, headers, name, tokens, calls))
                for name, (headers, tokens, times) in asking.items()
                for _ in range(times)
            ]
            await model.over.wait()
            for task in tasks:
                task.cancel()
        return [model.used[name] for name in asking]


def of_team(name: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-llm-d-inference-fairness-id", name.encode())]


async def test_32_keys_with_unequal_responses_get_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {name: f"ifs_{name}_{secrets.token_urlsafe(32)}" for name in NAMES}
    entries = [
        {
            "id": name,
            "principal": name,
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "scopes": ["infer", "stream"],
            "models": ["*"],
        }
        for name, key in keys.items()
    ]
    monkeypatch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": entries}))
    asking = {
        name: ([(b"x-api-key", key.encode())], 1 + number, 3)
        for number, (name, key) in enumerate(keys.items())
    }
    assert jain(await used_by_all(3000, asking)) >= 0.98


async def test_gateway_subjects_with_unequal_concurrency_get_equal_shares() -> None:
    asking = {name: (of_team(name), 5, 2 + 5 * (number == 0)) for number, name in enumerate(NAMES)}
    assert jain(await used_by_all(2000, asking, trusted_proxies=["10.0.0.0/8"])) >= 0.98


async def test_bidirectional_stream_requests_get_equal_shares() -> None:
    asking = {name: (of_team(name), 1 + 10 * number, 4) for number, name in enumerate(NAMES[:4])}
    used = await used_by_all(3000, asking, 1_000_000, max_concurrency=64, trusted_proxies=["10.0.0.0/8"])
    assert jain(used) >= 0.98, used


def test_stream_requests_are_charged_at_start_and_call_once() -> None:
    known, share = Shares(), Share("a")
    flow = share.enter(known, 5)
    charged = []
    for tokens in (10, 4):
        share.begin()
        share.begin()
        charged.append(flow.used)
        share.settle(tokens)
        charged.append(flow.used)
    share.begin()
    share.end(10 + 4 + 3)
    assert [*charged, flow.used] == [1, 10, 20, 14, 17]


@pytest.mark.parametrize("others", [0, 7])
def test_immediate_call_is_charged_like_queued_one(others: int) -> None:
    charged = []
    for starts in (False, True):
        known = Shares()
        busy, call = call_of("busy"), call_of("a")
        share = find_share(call)
        known.start(busy)
        find_share(busy).end(others)
        known.start(busy)
        if starts:
            known.start(call)
            known.start(call)  # once
        else:
            share.enter(known, 5)
            share.begin()
        flow = known.flow("a", 5)
        charged.append((flow.used, flow.lane.virtual_time))
        share.end(3)
        charged.append((flow.used, flow.usual))
    assert charged[:2] == charged[2:]


async def test_anonymous_calls_alternate() -> None:
    asking = {name: (of_team(name), 1 + number, 3) for number, name in enumerate(NAMES)}
    assert jain(await used_by_all(3000, asking)) < 0.9


async def test_single_principal_uses_whole_model() -> None:
    [used] = await used_by_all(300, {"a": (of_team("a"), 10, 40)}, trusted_proxies=["10.0.0.0/8"])
    assert used >= 8 * 290


class Held(MLModel):
    """Answers when it is let, with the usage that its request asks for."""

    order: list[str]
    gate: asyncio.Semaphore

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.order.append(str(payload.id))
        await self.gate.acquire()
        tokens = payload.inputs[0].data.flat()[0]
        if not tokens:
            raise ModelError("no")
        usage = Parameters(prompt_tokens=tokens - 1, completion_tokens=1)
        output = ResponseOutput(name="y", datatype="INT64", shape=[1], data=[tokens])
        return InferenceResponse(model_name="m", outputs=[output], parameters=usage)


async def order_of(
    asked: list[tuple[str, int]],
    objective: dict[str, str],
    keys: dict[str, str] | None = None,
    said: dict[str, int] | None = None,
    **settings: Any,
) -> str:
    """The order in which calls with so many tokens begin, one at a time, after they were asked for at once."""
    model = Held(ModelSettings(name="m", implementation=Held, max_concurrency=1, loop="server", **settings))
    model.order, model.gate = [], asyncio.Semaphore(0)
    server = {"trusted_proxies": ["10.0.0.0/8"], "objectives": {"chat": 1, "batch": 9}}
    async with Application(model, **server) as application:

        async def ask(name: str, tokens: int) -> None:
            headers = of_team(name)
            if name in objective:
                headers.append((b"x-llm-d-inference-objective", objective[name].encode()))
            if keys is not None:
                headers = [*headers[1:], (b"x-api-key", keys[name[0]].encode())]
            caller = Caller(Headers(headers, None, Gateway()), "http", priority=(said or {}).get(name, 0))
            admission = application.models.admit("m", None, caller)
            await admission.open(Operation.INFER, request_of(name, tokens))

        tasks = [asyncio.create_task(ask(*each)) for each in asked]
        served = application._backend.dataplane._registry.get("m")
        while served.pipeline.meters.queue.depth < len(asked) - 1:
            await asyncio.sleep(0)
        for _ in asked:
            model.gate.release()
        await asyncio.wait(tasks)
    return "".join(model.order)


async def test_usage_reported_by_model_is_charged() -> None:
    assert await order_of([("a", 30)] * 5 + [("b", 10)] * 9, {}) == "abbb" * 3 + "aa"


async def test_inference_objective_is_a_priority() -> None:
    asked = [("a", 1), ("a", 1), ("b", 1), ("c", 1), ("d", 1)]
    assert await order_of(asked, {"b": "batch", "d": "chat", "c": "unknown"}) == "adcab"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Keys of a, b and c, the last of which may have priority 2."""
    known = {name: f"ifs_{name}_{secrets.token_urlsafe(32)}" for name in "abc"}
    entries = [
        {
            "id": name,
            "principal": name,
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "scopes": ["infer"],
            "models": ["*"],
            "limits": {"priority": 2} if name == "c" else {},
        }
        for name, key in known.items()
    ]
    monkeypatch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": entries}))
    return known


async def test_request_priority_orders_own_calls(keys: dict[str, str]) -> None:
    asked = [("a", 1), ("a5", 1), ("a9", 1), ("b", 1), ("a1", 1), ("b", 1), ("b", 1)]
    order = await order_of(asked, {}, keys, {"a5": 5, "a9": 9, "a1": 1})
    assert order == "aba1ba5ba9"


async def test_max_priority_lets_key_precede_others(keys: dict[str, str]) -> None:
    asked = [("a", 1), ("a", 1), ("b", 1), ("c", 1), ("c1", 1)]
    assert await order_of(asked, {}, keys, {"c1": 1, "a": 1}) == "ac1bca"
    assert await order_of(asked, {"c": "batch"}, keys, {"c1": 1}) == "ac1bac", (
        "a gateway's word is not a client's"
    )
