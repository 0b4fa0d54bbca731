"""The table of all frames."""

import inferstream.server.frontends.frames  # noqa: F401  # with those of workers and of front ends
from inferstream.processes.frames import TAGS, Frame


def frames_below(kind: type) -> set[str]:
    return {kind.__name__}.union(*(frames_below(each) for each in kind.__subclasses__()))


def test_frame_table_is_complete_and_exact() -> None:
    own = {name for name in frames_below(Frame) if name in TAGS}
    assert own == set(TAGS)
    assert len(set(TAGS.values())) == len(TAGS) < 128, "one byte each"
