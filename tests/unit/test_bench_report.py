"""`make bench-report AGAINST=COMMIT`: which rows it takes, how it judges costs, and what is wrong usage."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import against, report, rows, verdicts
from benchmarks.verdicts import ABOVE, WITHIN_RATIO, WITHIN_SPREAD

ASKED_FOR = [
    "rest-small",
    "rest-binary",
    "rest-function",
    "rest-key",
    "rest-large",
    "sse-token",
    "websocket-message",
    "chat-token",
    "grpc-small",
    "grpc-typed",
    "grpc-stream",
    "worker-rest-small",
    "worker-grpc-stream",
    "start-time",
    "memory-idle",
    "import",
]


def names(chosen: Sequence[rows.Row | rows.FreshRow]) -> list[str]:
    return [row.name for row in chosen]


def test_rows_have_unique_names_and_cover_every_transport() -> None:
    found = names(rows.choose_rows(None))
    assert len(set(found)) == len(found)
    assert set(ASKED_FOR) <= set(found)


def test_names_and_prefixes_select_rows_in_table_order() -> None:
    assert names(rows.choose_rows("import, sse,rest-key")) == [
        "sse-token",
        "rest-key",
        "sse-function",
        "import",
    ]
    assert names(rows.choose_rows("worker-")) == [name for name in names(rows.ROWS) if name[:7] == "worker-"]


@pytest.mark.parametrize("given", ["rest,nothing", "", ",", "REST"])
def test_unknown_row_lists_existing_rows(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["--against", "HEAD", "--rows", given]) == 2
    said = capsys.readouterr().err
    assert f"--rows {given}: " in said
    assert all(name in said for name in names(rows.ROWS))


@pytest.mark.parametrize("commit", ["0" * 40, "no-such-branch", "--all", ""])
def test_unknown_commit_is_a_usage_error(commit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([f"--against={commit}", "--rows", "import"]) == 2
    assert f"--against {commit}: git does not know this commit" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--rows", "rest"], ["--json"], ["--against"]])
def test_comparison_options_need_a_commit(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        report.main(arguments)


@pytest.mark.parametrize(
    ("this", "again", "verdict"),
    [
        ([100, 100, 100], [100, 100, 100], WITHIN_RATIO),
        ([50, 50, 50], [100, 100, 100], WITHIN_RATIO),
        ([102, 102, 102], [100, 100, 100], WITHIN_RATIO),
        ([103, 103, 103], [100, 100, 100], ABOVE),
        ([150, 100, 100], [100, 100, 100], WITHIN_RATIO),  # the median, not the mean
        ([106, 106, 106], [100, 110, 100], WITHIN_SPREAD),
        ([106, 104, 104], [100, 90, 100], WITHIN_SPREAD),  # a low ratio is a spread, too
        ([130, 130, 130], [100, 110, 100], ABOVE),
    ],
)
def test_row_passes_within_two_percent_or_the_base_spread(
    this: list[float], again: list[float], verdict: str
) -> None:
    result = verdicts.compare("row", "unit", {"this": this, "against": [100, 100, 100], "again": again})
    assert result.verdict == verdict
    assert verdicts.has_passed([result]) is (verdict != ABOVE)


def test_ratio_is_the_median_of_round_ratios() -> None:
    costs = {"this": [10, 40, 90], "against": [10, 20, 100], "again": [10, 20, 80]}
    found = verdicts.compare("row", "unit", costs)
    assert (found.ratio, found.spread, found.itself) == (1.0, (1.0, 2.0), (0.8, 1.0))


def test_compared_trees_are_copies_with_their_own_entry_points(tmp_path: Path) -> None:
    trees = against.copy_trees(tmp_path, against.resolve_commit("HEAD"))
    assert trees["against"] == trees["again"] != trees["this"]
    for tree in trees.values():
        (metadata,) = tree.glob("inferstream-*.dist-info")
        assert "[inferstream.extensions]\n" in (metadata / "entry_points.txt").read_text()
    changed = (against.ROOT / "inferstream" / "rows.py").read_bytes()
    assert (trees["this"] / "inferstream" / "rows.py").read_bytes() == changed


def test_package_from_another_location_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not from"):
        against.check_import(tmp_path)


def fake_costs(monkeypatch: pytest.MonkeyPatch, this: float) -> None:
    costs = {"this": [this], "against": [100.0], "again": [100.0]}
    monkeypatch.setattr(against, "measure", lambda *_: [verdicts.compare("import", "CPU ms", costs)])
    monkeypatch.setattr(against, "copy_trees", lambda *_: {})


@pytest.mark.parametrize(("this", "code"), [(100.0, 0), (110.0, 1)])
def test_exit_code_is_zero_only_if_all_rows_pass(
    this: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_costs(monkeypatch, this)
    assert report.main(["--against", "HEAD", "--rows", "import"]) == code
    assert "import" in capsys.readouterr().out
    assert report.main(["--against", "HEAD", "--rows", "import", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "inferstream.bench-report/1"
    assert document["passed"] is (code == 0)
    (row,) = document["rows"]
    assert row.keys() == {"name", "unit", "this", "against", "ratio", "spread", "itself", "verdict"}


def test_measurement_failure_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("rest-small, again: no answer")

    fake_costs(monkeypatch, 100.0)
    monkeypatch.setattr(against, "measure", fail)
    assert report.main(["--against", "HEAD"]) == 1
    assert capsys.readouterr().err == "bench-report: rest-small, again: no answer\n"
