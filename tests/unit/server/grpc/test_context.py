"""The caller of an RPC, and a model's headers as trailing metadata."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.dataplane.access import Authority, build_authority
from inferstream.errors import InvalidRequest
from inferstream.plugins.keys.file import VARIABLE
from inferstream.server.grpc.context import MAX_METADATA_SIZE, TrailingHeaders, caller_of
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.settings import Settings
from inferstream.types import Parameters

ACCESS = Authority(Settings())


class Context:
    deadline = 7.5
    peer = "ipv4:127.0.0.1:1"
    identities = ()

    def __init__(self, *metadata: tuple[str, str | bytes]) -> None:
        self.metadata = CallMetadata(metadata)
        self.trailing: Any = ()

    def add_trailing_metadata(self, metadata: Any) -> None:
        self.trailing += metadata


def test_caller_has_deadline_and_priority() -> None:
    context: Any = Context(("x-request-priority", "2"), ("x-a", "b"))
    caller = caller_of(context, ACCESS)
    assert (caller.deadline, caller.priority, caller.headers["x-a"]) == (7.5, 2, "b")
    assert (caller.peer, caller.shown) == (Context.peer, None)
    with pytest.raises(InvalidRequest):
        caller_of(Context(("x-request-priority", "high")), ACCESS)  # type: ignore[arg-type]


def test_shared_metadata_is_split_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"version": 1, "keys": []}')
    context: Any = Context(("authorization", "Bearer k"), ("x-a", "b"))
    first, second = (caller_of(context, access) for access in (build_authority(Settings()), ACCESS))
    assert first.shown is second.shown
    assert first.shown == (("authorization", "Bearer k"),)
    assert dict(first.headers) == {"x-a": "b"}


UNMARKED: Any = SimpleNamespace(model="m", pipeline=SimpleNamespace(marks=None))
"""An admission to a model."""


def sent(headers: dict[str, str]) -> Any:
    context: Any = Context()
    TrailingHeaders().send(context, UNMARKED, "1", Parameters(headers=headers))
    return context.trailing


def test_model_headers_are_trailing_metadata() -> None:
    assert sent({"X-Cost": "3"}) == (("x-cost", "3"),)
    context: Any = Context()
    TrailingHeaders().send(context, UNMARKED, "1", None)
    assert context.trailing == ()


def test_invalid_or_oversized_metadata_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    large = "x" * (MAX_METADATA_SIZE // 2)
    headers = {
        "grpc-status": "1",
        "a-bin": "x",
        "a b": "c",
        "x-a": "ä",
        "x-1": large,
        "x-2": large,
        "x-3": "d",
    }
    assert [name for name, _ in sent(headers)] == ["x-1", "x-3"]
    assert len(caplog.messages) == 5
