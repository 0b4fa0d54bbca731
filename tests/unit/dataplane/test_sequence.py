"""A sequence as it begins."""

from inferstream.dataplane.sequence import OpenSequence


async def test_it_begins_without_requests() -> None:
    sequence = OpenSequence()
    assert (sequence.requests, sequence.turn.locked()) == (0, False)
