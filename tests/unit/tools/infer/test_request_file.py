"""Files of requests, read as they are needed."""

from pathlib import Path

from inferstream.tools.infer.request_file import RequestFile
from inferstream.tools.infer.results import Indexes


def test_lines_are_read_when_they_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("".join(f"{i}\n" for i in range(5)) + "\n5")
    answered = Indexes()
    answered.add(1)
    lines = RequestFile(path, 2, answered)
    batches = lines.batches()
    assert [line.number for line in next(batches)] == [0, 2]
    assert lines.read_bytes == 6
    assert [[(line.number, line.text.strip()) for line in batch] for batch in batches] == [
        [(3, b"3"), (4, b"4")],
        [(6, b"5")],
    ]
    assert (lines.skipped, lines.read_bytes) == (1, lines.total_bytes)
    lines.close()
