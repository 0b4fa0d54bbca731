"""Questions between front ends of which some are lost or hang."""

import asyncio

import msgspec
import pytest

from inferstream.dataplane import peers
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.cancelling import Cancelling, Credentials
from inferstream.dataplane.peers import CancelCalls, PackedQuestion, Peers, Questions
from inferstream.errors import NotFound, WorkerLost
from inferstream.extensions.entries import MESSAGES
from inferstream.processes.frames import PeerQuestion
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


async def test_responding_front_ends_are_counted() -> None:
    asking = Peers(0, 5, ask).ask_others(CancelCalls("id", ""))
    assert await asyncio.wait_for(asking, 5) == [1]


async def test_hung_front_end_counts_as_lost() -> None:
    with pytest.raises(WorkerLost, match=r"front end 3 has not answered within 0\.02 s"):
        await asyncio.wait_for(Peers(0, 5, ask).ask(3, CancelCalls("id", ""), 0.02), 5)
    with pytest.raises(NotFound, match="front end 0 answers no CancelCalls"):
        await Peers(0, 5, ask).ask(0, CancelCalls("id", ""))
    with pytest.raises(NotFound, match="no front end 5"):
        await Peers(0, 5, ask).ask(5, CancelCalls("id", ""))


async def test_cancel_does_not_wait_for_hung_front_end() -> None:
    cancelling = Cancelling(list, Peers(0, 5, ask), Credentials([]))
    assert await asyncio.wait_for(cancelling.cancel("id", Caller(Headers(()), "v2")), 5) == 1


class Colour(PeerQuestion[str]):
    """A question that this module defines."""

    name: str


NAME = f"{__name__}.Colour"


def test_message_numbers_follow_the_deciding_process() -> None:
    decided = Questions()
    other = Questions(decided.names)
    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(decided.pack(Colour("red"))), type=PackedQuestion)
    assert packed.kind == decided.names.index(NAME)
    assert other.unpack(packed) == Colour("red")
    assert other.pack(packed) is packed, "a question is passed on as it came"


def test_unknown_question_is_refused() -> None:
    names = [name for name in Questions().names if name != NAME]
    with pytest.raises(NotFound, match="know no Colour"):
        Questions(names).pack(Colour("red"))
    with pytest.raises(NotFound, match=r"knows no p\.Absent"):
        Questions(["p.Absent"]).unpack(PackedQuestion(0, msgspec.Raw(b"\x90")))


async def test_packed_question_is_handled_by_its_kind() -> None:
    questions, here = Questions(), Peers(0, 2)
    here.answers(PackedQuestion, lambda packed: here.answer(questions.unpack(packed)))

    async def upper(question: Colour) -> str:
        return question.name.upper()

    here.answers(Colour, upper)
    assert await here.ask(0, questions.pack(Colour("red"))) == "RED"


def test_extension_modules_are_imported_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(peers, "load_group", lambda group, strict: asked.append((group, strict)) or [])
    assert NAME in Questions(strict=True).names
    assert asked == [(MESSAGES, True)]
