"""Questions between front ends of which some are lost or hang."""

import asyncio

import pytest

from inferstream.dataplane import peers
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.cancelling import Cancelling, Credentials
from inferstream.dataplane.peers import CancelCalls, Peers
from inferstream.errors import NotFound, WorkerLost
from inferstream.types import Headers


async def ask(front_end: int, question: CancelCalls) -> int:
    """Front end 1 answers, 2 is lost, all others hang."""
    if front_end == 1:
        return 1
    if front_end == 2:
        raise WorkerLost("the front end 2 does not serve")
    await asyncio.Event().wait()
    raise AssertionError


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PROMPT", 0.02)


async def test_those_that_answer_count() -> None:
    asking = Peers(0, 5, ask).ask_others(CancelCalls("id", ""))
    assert await asyncio.wait_for(asking, 5) == [1]


async def test_one_that_hangs_counts_as_lost() -> None:
    with pytest.raises(WorkerLost, match=r"front end 3 has not answered within 0\.02 s"):
        await asyncio.wait_for(Peers(0, 5, ask).ask(3, CancelCalls("id", ""), 0.02), 5)
    with pytest.raises(NotFound, match="front end 0 answers no CancelCalls"):
        await Peers(0, 5, ask).ask(0, CancelCalls("id", ""))
    with pytest.raises(NotFound, match="no front end 5"):
        await Peers(0, 5, ask).ask(5, CancelCalls("id", ""))


async def test_a_cancel_does_not_wait_for_one_that_hangs() -> None:
    cancelling = Cancelling(list, Peers(0, 5, ask), Credentials([]))
    assert await asyncio.wait_for(cancelling.cancel("id", Caller(Headers(()), "v2")), 5) == 1
