"""Calls that are cancelled by the id of their request, by who has the right to."""

from typing import Any

import pytest

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.cancelling import Cancelling, Credentials
from inferstream.dataplane.peers import CancelCalls, Peers
from inferstream.errors import Cancelled, NotFound
from inferstream.types import Headers, InferenceRequest


class Origin:
    peer = ""

    def __init__(self, *identities: str) -> None:
        self.identities = identities


def headers(*identities: str, **values: str) -> Headers:
    return Headers(values.items(), None, Origin(*identities))


def test_clients_are_identified_by_named_headers_and_certificates() -> None:
    credentials = Credentials(["Authorization"])
    mine = credentials.of(headers(authorization="a"), None)
    assert credentials.of(headers(authorization="a", other="x"), None) == mine
    assert credentials.of(headers(authorization="b"), None) != mine
    assert credentials.of(headers(), None) != credentials.of(headers(authorization=""), None)
    assert credentials.of(headers("x", "y", authorization="a"), None) != mine
    assert credentials.of(headers("x", "y"), None) == credentials.of(headers("y", "x"), None)


def test_principal_identifies_client_instead_of_headers() -> None:
    credentials = Credentials(["authorization"])
    alice = credentials.of(headers(authorization="a"), "alice")
    assert credentials.of(headers(authorization="b"), "alice") == alice
    assert credentials.of(headers(authorization="a"), "bob") != alice
    assert Credentials(["a"]).of({"a": "alice"}, None) != credentials.of({}, "alice")


class Live:
    """The calls of one model."""

    def __init__(self, *calls: Call) -> None:
        self.calls = set(calls)


def call(id: str, **values: str) -> Call:
    return Call(Operation.INFER, "m", None, InferenceRequest(id=id, inputs=[]), headers(**values))


def ended(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    calls: list[Call] = []

    def end(self: Call, reason: Exception) -> None:
        assert isinstance(reason, Cancelled)
        calls.append(self)

    monkeypatch.setattr(Call, "end", end)
    return calls


async def test_cancel_ends_all_calls_with_the_id_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = ended(monkeypatch)
    mine, second, other, foreign = call("1"), call("1"), call("2"), call("1", authorization="b")
    lives: Any = [Live(mine, other), Live(second, foreign)]
    cancelling = Cancelling(lambda: lives, Peers(0, 1), Credentials(["authorization"]))
    assert await cancelling.cancel("1", Caller(headers(), "v2")) == 2
    assert {*ends} == {mine, second}
    with pytest.raises(NotFound, match='no request with the id "3" is in progress'):
        await cancelling.cancel("3", Caller(headers(), "v2"))


async def test_other_front_ends_cancel_their_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    ended(monkeypatch)
    lives: Any = [Live(call("1"))]
    asked: list[Any] = []

    async def ask(front_end: int, question: Any) -> int:
        asked.append((front_end, type(question), question.id))
        return 3

    cancelling = Cancelling(lambda: lives, Peers(0, 2, ask), Credentials([]))
    assert await cancelling.cancel("1", Caller(headers(), "v2")) == 4
    assert asked == [(1, CancelCalls, "1")]
