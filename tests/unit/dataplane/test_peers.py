"""Questions between front ends of which some are lost or hang."""

import asyncio

import pytest

from inferstream.dataplane import peers
from inferstream.dataplane.cancelling import Cancelling, Credentials
from inferstream.dataplane.peers import Peers
from inferstream.errors import NotFound, WorkerLost


async def ask(front_end: int, subject: str, text: str) -> bytes:
    """Front end 1 answers, 2 is lost, all others hang."""
    if front_end == 1:
        return b"1"
    if front_end == 2:
        raise WorkerLost("the front end 2 does not serve")
    await asyncio.Event().wait()
    raise AssertionError


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PROMPT", 0.02)


async def test_those_that_answer_count() -> None:
    asking = Peers(0, 5, ask).ask_others("subject", "text")
    assert await asyncio.wait_for(asking, 5) == [b"1"]


async def test_one_that_hangs_counts_as_lost() -> None:
    with pytest.raises(WorkerLost, match=r"front end 3 has not answered within 0\.02 s"):
        await asyncio.wait_for(Peers(0, 5, ask).ask(3, "subject", "text", 0.02), 5)
    with pytest.raises(NotFound):
        await Peers(0, 5, ask).ask(5, "subject", "text")


async def test_a_cancel_does_not_wait_for_one_that_hangs() -> None:
    cancelling = Cancelling(list, Peers(0, 5, ask), Credentials([]))
    assert await asyncio.wait_for(cancelling.cancel("id", {}), 5) == 1
