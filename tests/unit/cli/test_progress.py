"""The line while models load."""

import pytest

from inferstream.cli.progress import progress_line

A, B, C = ("a", None), ("b", "7"), ("c", None)


@pytest.mark.parametrize(
    ("wanted", "loading", "line"),
    [
        (3, {}, ""),
        (1, {A: 9.0}, "loading: a 1 s …"),
        (3, {A: 9.0, B: 0.0}, "loading 2 of 3: b:7 10 s, a 1 s …"),
        (3, {C: 10.0}, "loading 3 of 3: c 0 s …"),
    ],
)
def test_progress_shows_loading_models_and_elapsed_time(wanted: int, loading: dict, line: str) -> None:
    assert progress_line(wanted, loading, 10.0) == line


def test_many_loading_models_are_counted() -> None:
    loading = {(f"m{i}", None): 0.0 for i in range(9)}
    assert progress_line(9, loading, 5.0).endswith("m3 5 s and 5 more …")
