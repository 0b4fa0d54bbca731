"""Answers on disk: whole lines, and what a second run keeps of them."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from inferstream.plugins.tools.infer.results import Indexes, ResultFile
from inferstream.types import InferenceResponse, Parameters, ResponseOutput


def response(**parameters: object) -> InferenceResponse:
    output = ResponseOutput(name="y", shape=[1], datatype="FP32", data=[1.5])
    return InferenceResponse(model_name="m", outputs=[output], parameters=Parameters(**parameters))


def test_first_failures_are_kept_for_summary(tmp_path: Path) -> None:
    results = ResultFile(tmp_path / "out", resume=False)
    for index in range(9):
        results.fail(index, f"why {index}")
    results.close()
    assert results.failed == 9
    assert results.named == [(index, f"why {index}") for index in range(5)]


@given(st.sets(st.integers(0, 5000)))
def test_indexes_form_a_set(numbers: set[int]) -> None:
    indexes = Indexes()
    for number in numbers:
        indexes.add(number)
    assert {number for number in range(5100) if number in indexes} == numbers


def test_result_keeps_server_parameters(tmp_path: Path) -> None:
    path = tmp_path / "out"
    results = ResultFile(path, resume=False)
    results.add_response(7, "id-1", response(temperature=0.5, batch_index=99))
    results.fail(8, "why")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    results.close()
    assert written[0]["parameters"] == {"temperature": 0.5, "batch_index": 7, "inference_id": "id-1"}
    assert written[1] == {
        "parameters": {"batch_index": 8},
        "error": {"status": "preprocessing error", "msg": "why"},
    }


def test_resume_drops_failures_duplicates_and_incomplete_lines(tmp_path: Path) -> None:
    path = tmp_path / "out"
    results = ResultFile(path, resume=False)
    for index in (4, 0):
        results.add_response(index, "id", response())
    results.fail(1, "why")
    results.add_response(4, "id", response())
    results.close()
    whole = path.read_text()
    path.write_text(whole + '"noise"\n{"parameters": {"batch_index": 2}, "outp')
    results = ResultFile(path, resume=True)
    assert [index in results.done for index in range(6)] == [True, False, False, False, True, False]
    results.add_response(2, "id", response())
    results.close()
    assert [json.loads(line)["parameters"]["batch_index"] for line in path.read_text().splitlines()] == [
        4,
        0,
        2,
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_run_without_resume_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old\n")
    ResultFile(path, resume=False).close()
    assert path.read_text() == ""
