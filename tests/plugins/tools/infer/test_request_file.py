"""Files of requests, read as they are needed."""

import math
from pathlib import Path

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.tools.infer.request_file import RequestFile, RequestLine, parse_request
from inferstream.plugins.tools.infer.results import Indexes


def test_lines_are_read_lazily(tmp_path: Path) -> None:
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


def line(data: str, name: str = "x") -> RequestLine:
    tensor = f'{{"name": "{name}", "shape": [1], "datatype": "FP32", "data": [{data}]}}'
    return RequestLine(0, f'{{"inputs": [{tensor}]}}'.encode())


def test_python_nan_is_accepted() -> None:
    [value] = parse_request(line("NaN")).inputs[0].data.flat()
    assert math.isnan(value)
    assert parse_request(line("-Infinity")).inputs[0].data.flat() == [-math.inf]


@pytest.mark.parametrize("text", [b"{", b"NaN NaN", line("NaN", r"\ud800").text, b'"\xff NaN"'])
def test_non_json_line_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequest, match="The body is not valid JSON: "):
        parse_request(RequestLine(0, text))


def test_request_has_own_id() -> None:
    assert parse_request(line("1")).id != parse_request(line("1")).id
