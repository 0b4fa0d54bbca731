"""A sequence as it begins."""

from inferstream.plugins.triton.open_sequence import OpenSequence


async def test_sequence_starts_without_requests() -> None:
    sequence = OpenSequence()
    assert (sequence.requests, sequence.turn.locked()) == (0, False)
