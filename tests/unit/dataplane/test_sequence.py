"""A sequence as it begins."""

from inferstream.dataplane.sequence import OpenSequence


async def test_it_begins_without_requests_and_without_a_worker() -> None:
    sequence = OpenSequence()
    assert (sequence.requests, sequence.worker, sequence.turn.locked()) == (0, None, False)
