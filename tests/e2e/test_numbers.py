"""Numbers that a scrape shows of language models, with workers and front ends too: each call counts once."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.frontends import clients
from tests.serving import Running, eventually
from tests.texts import write_text_models

COUNT = 3


@pytest.fixture(
    scope="module", params=[(0, 1), (2, 1), (2, 2)], ids=["in-process", "workers", "workers and front ends"]
)
def numbered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    workers, frontends = request.param
    folder = tmp_path_factory.mktemp("numbered") / "models"
    write_text_models(folder)
    settings = {
        "parallel_workers": workers,
        "frontends": frontends,
        "metrics_buckets": {"between_items": [0.00005, 0.5]},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    with clients(running, 1 if frontends == 1 else 24) as opened:
        running.opened = opened
        yield running
    assert running.stop() == 0, running.text()


def ask(running: Running, model: str, path: str = "generate_stream") -> None:
    """Each of a few clients asks the model once."""
    for at in range(COUNT):
        client = running.opened[at % len(running.opened)]
        found = client.post(f"/v2/models/{model}/{path}", json={"prompt": "one two three four"})
        assert found.status_code == 200, found.text


def grown(running: Running, name: str, before: float, by: float, **labels: str) -> None:
    """Within a second a worker has told its numbers; they do not grow further than they should."""
    eventually(lambda: running.metric(name, **labels) >= before + by)
    assert running.metric(name, **labels) == before + by


def test_tokens_are_counted_once(numbered: Running) -> None:
    for model, read, written in (("tokens", 10, 103), ("words", 0, 4)):
        names = "inferstream_input_tokens_total", "inferstream_output_tokens_total"
        before = [numbered.metric(name, model=model) for name in names]
        ask(numbered, model)
        for name, start, count in zip(names, before, (read, written), strict=True):
            grown(numbered, name, start, COUNT * count, model=model)


def test_each_stepped_stream_counts_one_wait(numbered: Running) -> None:
    before = numbered.metric("inferstream_step_wait_seconds_count", model="steps")
    ask(numbered, "steps")
    grown(numbered, "inferstream_step_wait_seconds_count", before, COUNT, model="steps")
    assert 0 < numbered.metric("inferstream_step_wait_seconds_sum", model="steps") < 60


def test_load_duration_is_reported(numbered: Running) -> None:
    assert 0 < numbered.metric("inferstream_model_load_seconds", model="words") < 60
    index = numbered.url + "/v2/repository/models/saying/"
    assert httpx.post(index + "unload", json={}).status_code == 200
    assert numbered.metric("inferstream_model_load_seconds", model="saying") == 0
    assert httpx.post(index + "load", json={}, timeout=30).status_code == 200
    assert 0 < numbered.metric("inferstream_model_load_seconds", model="saying") < 60


def test_buckets_come_from_settings(numbered: Running) -> None:
    ask(numbered, "words")
    page = httpx.get(f"{numbered.url}/metrics").text
    name = "inferstream_time_between_items_seconds_bucket"
    bounds = {
        line.partition('le="')[2].partition('"')[0] for line in page.splitlines() if line.startswith(name)
    }
    assert bounds == {"5e-05", "0.5", "+Inf"}
    assert numbered.metric(name, model="words", le="+Inf") >= 3 * COUNT


def test_invalid_buckets_abort_startup_with_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "settings.json").write_text('{"metrics_buckets": {"requests": [2, 1]}}')
    running = Running(folder, wait=False)
    assert running.process.wait(20) == 1
    (line,) = running.text().splitlines()
    assert "metrics_buckets" in line
    assert 'the bounds of "requests" must ascend' in line
