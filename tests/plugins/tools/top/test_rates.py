"""Rates and quantiles of `server top`, out of two scrapes."""

import io
import math

import pytest
from rich.console import Console

from inferstream.plugins.tools.top.rates import Scrape, compute_rows, find_window_start, increase, quantile
from inferstream.plugins.tools.top.table import build_view


def page(
    calls: float, failed: float = 0, buckets: tuple[float, float, float] = (0, 0, 0), **more: float
) -> str:
    lines = [
        "# TYPE model_infer_request_success counter",
        f'model_infer_request_success_total{{model="m",version=""}} {calls}',
        "# TYPE model_infer_request_failure counter",
        f'model_infer_request_failure_total{{model="m",version=""}} {failed}',
        "# TYPE inferstream_calls_in_progress gauge",
        'inferstream_calls_in_progress{model="m",version=""} 2',
        "# TYPE inferstream_call_seconds histogram",
    ]
    for bound, count in zip(("0.1", "1.0", "+Inf"), buckets, strict=True):
        lines.append(f'inferstream_call_seconds_bucket{{le="{bound}",model="m",version=""}} {count}')
    lines += [
        f'inferstream_call_seconds_count{{model="m",version=""}} {buckets[2]}',
        'inferstream_call_seconds_sum{model="m",version=""} 1',
    ]
    for name, value in more.items():
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    return "\n".join(lines) + "\n"


def test_rates_cover_two_scrapes() -> None:
    (row,) = compute_rows(Scrape(page(10), 0.0), Scrape(page(30, failed=2), 2.0), None)
    assert (row.model, row.calls, row.errors, row.running) == (("m", ""), 11.0, 1.0, 2.0)


def test_restart_gives_no_negative_rate_or_quantile() -> None:
    before, after = Scrape(page(1000, buckets=(10, 900, 1000)), 0.0), Scrape(page(4, buckets=(4, 4, 4)), 2.0)
    (row,) = compute_rows(before, after, before)
    assert row.calls == 2.0
    assert row.p50 == pytest.approx(0.05)
    assert (increase(10, 12), increase(10, 3)) == (2, 3)


def test_quantiles_cover_window() -> None:
    before, after = (
        Scrape(page(0, buckets=(100, 100, 100)), 0.0),
        Scrape(page(0, buckets=(100, 110, 110)), 1.0),
    )
    (row,) = compute_rows(before, after, before)
    assert row.p50 == pytest.approx(0.55)
    (row,) = compute_rows(before, after, None)
    assert row.p50 is not None
    assert row.p50 < 0.1
    (row,) = compute_rows(after, after, after)
    assert row.p50 is None


def test_quantile_is_interpolated_and_capped_at_last_bound() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({0.1: 0, 1.0: 10, math.inf: 10}, 0.5) == pytest.approx(0.55)
    assert quantile({0.1: 1, math.inf: 10}, 0.99) == 0.1


def test_labels_other_than_model_are_summed() -> None:
    text = (
        "# TYPE inferstream_queue_depth gauge\n"
        'inferstream_queue_depth{model="m",version="",frontend="0"} 1\n'
        'inferstream_queue_depth{model="m",version="",frontend="1"} 2\n'
    ) + page(0)
    (row,) = compute_rows(Scrape(text, 0.0), Scrape(text, 1.0), None)
    assert row.queued == 3


def test_window_starts_at_oldest_scrape() -> None:
    scrapes = [Scrape("", float(time)) for time in (0, 10, 20)]
    assert find_window_start(scrapes, 15, 20) is scrapes[1]
    assert find_window_start([], 15, 20) is None


def test_missing_metric_is_hidden() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    scrape = Scrape(page(3, inferstream_workers=2), 0.0)
    console.print(
        build_view("http://x", scrape, scrape, None, {("m", ""): "READY", ("gone", "1"): "UNAVAILABLE"})
    )
    text = console.export_text()
    assert "workers 2" in text
    assert "memory" not in text
    assert "gone:1  unavailable" in text
