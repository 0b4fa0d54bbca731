"""Values that plug-ins keep with calls, and how they travel."""

from typing import Any

import pytest

from inferstream.dataplane import call_values
from inferstream.dataplane.call import Call, MergedCall, Operation
from inferstream.dataplane.call_values import CallValue, inherit_values, pack_values, unpack_values
from inferstream.dataplane.reply import Reply
from inferstream.dataplane.stages.limits import release_call_values
from inferstream.errors import InferenceFailed
from inferstream.plugins.keys.shares import SHARE, Share
from inferstream.types import InferenceRequest, InferenceResponse


class Kept(CallValue[str]):
    """Travels everywhere, and notes its ends."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ends: list[tuple[str, int]] = []

    def pack(self, value: str) -> str:
        return value

    def unpack(self, packed: str) -> str:
        return f"{packed} in a worker"

    def inherit(self, value: str, call: Call) -> str | None:
        return f"{value} of {call.model}" if value else None

    def end(self, value: str, tokens: int) -> None:
        self.ends.append((value, tokens))


def call(kind: type[Call] = Call, **arguments: Any) -> Call:
    return kind(Operation.INFER, "m", None, InferenceRequest(inputs=[]), {}, **arguments)


def test_call_without_values_allocates_no_storage() -> None:
    one = call()
    assert not hasattr(one, "values")
    assert CallValue[int]("n").get(one) is None


def test_same_named_values_are_separate() -> None:
    first, second, one = CallValue[int]("n"), CallValue[int]("n"), call()
    first.set(one, 1)
    assert (first.get(one), second.get(one)) == (1, None)
    second.set(one, 2)
    assert (first.get(one), second.get(one)) == (1, 2)


def test_only_packable_values_leave_the_process() -> None:
    here, kept, one = CallValue[object]("here"), Kept("kept"), call()
    here.set(one, object())
    assert pack_values(one) == {}
    kept.set(one, "k")
    assert pack_values(one) == {"kept": "k"}


def test_worker_unpacks_known_values(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, one = Kept("kept"), call()
    monkeypatch.setattr(call_values, "_load_call_values", lambda: {"kept": kept})
    unpack_values(one, {"kept": "k", "of a package that is not here": 1})
    assert one.values == {kept: "k in a worker"}


def test_extension_values_are_known_in_worker() -> None:
    one = call()
    unpack_values(one, {"share": ("team", 3)})
    share = SHARE.get(one)
    assert share is not None
    assert (share.name, share.rank) == ("team", 3)


def test_nested_call_inherits_marked_values() -> None:
    here, kept, outer, inner = CallValue[int]("here"), Kept("kept"), call(), call()
    here.set(outer, 1)
    kept.set(outer, "")
    inherit_values(inner, outer)
    assert not hasattr(inner, "values")
    kept.set(outer, "k")
    inherit_values(inner, outer)
    assert inner.values == {kept: "k of m"}


@pytest.mark.parametrize(("kind", "name"), [(Call, "team"), (MergedCall, "alice")])
def test_batch_inherits_values_of_its_principal(kind: type[Call], name: str) -> None:
    outer, inner = call(kind, principal="alice"), call()
    SHARE.set(outer, Share("team", 2))
    inherit_values(inner, outer)
    share = SHARE.get(inner)
    assert share is not None
    assert (share.name, share.rank) == (name, 2)


@pytest.mark.parametrize("fails", [False, True])
async def test_values_end_with_the_call_tokens(fails: bool) -> None:
    kept = Kept("kept")

    async def handle(call: Call) -> Reply:
        if fails:
            raise InferenceFailed("no")
        return Reply(InferenceResponse(model_name="m", outputs=[]))

    for one in (call(), call()):
        if kept.ends == []:
            kept.set(one, "k")
        try:
            async with await release_call_values(handle)(one) as reply:
                async for _ in reply:
                    pass
        except InferenceFailed:
            assert fails
    assert kept.ends == [("k", 0 if fails else 1)]
