"""Which messages are done with."""

from inferstream.kafka.session import Offsets


def test_offsets_are_committed_in_their_order() -> None:
    offsets = Offsets()
    for offset in (5, 6, 9):
        offsets.begin(offset)
    offsets.end(6)
    assert offsets.take() is None
    offsets.end(5)
    assert (offsets.take(), offsets.take()) == (7, None)
    offsets.end(9)
    assert offsets.take() == 10
