"""Counts and durations of calls as a collector receives them, over the protocol that collectors speak."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector import Collector
from tests.frontends import clients, front_ends
from tests.serving import eventually, text, write_model
from tests.texts import write_text_model


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


def folder_of(tmp_path: Path, **settings: object) -> Path:
    folder = tmp_path / "models"
    for name, model in (("echo", "Echo"), ("failing", "Failing"), ("streaming", "Streaming")):
        write_model(folder, name, f"faulty_models.{model}", name=name, parameters={"version": "3"})
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def test_calls_are_pushed_by_model_and_outcome(tmp_path: Path, serve, collector: Collector) -> None:
    folder = folder_of(
        tmp_path,
        server_name="shop",
        server_version="7",
        metrics_push_server=f"127.0.0.1:{collector.port}",
        metrics_push_interval=0.1,
    )
    running = serve(folder)
    for _ in range(3):
        assert running.infer("echo", text()).status_code == 200
    assert running.infer("failing", text()).status_code == 500
    echoed = {"model_name": "echo", "model_version": "3", "call_end": "success"}
    eventually(lambda: collector.total("inferstream.calls", **echoed) == 3)
    eventually(lambda: collector.total("inferstream.calls", model_name="failing", call_end="internal") == 1)
    (duration,) = collector.points("inferstream.call.duration", **echoed)
    assert duration.count == sum(duration.bucket_counts) == 3
    assert 0 < duration.sum < 60
    assert len(duration.bucket_counts) == len(duration.explicit_bounds) + 1
    assert not duration.HasField("min")
    assert duration.start_time_unix_nano < duration.time_unix_nano
    assert collector.total("inferstream.calls.in_progress", model_name="echo") == 0
    (resource,) = {tuple(sorted(each.items())) for each in collector.pushers}
    found = dict(resource)
    assert (found["service.name"], found["service.version"]) == ("shop", "7")


def test_last_calls_are_pushed_on_shutdown(tmp_path: Path, serve, collector: Collector) -> None:
    folder = folder_of(
        tmp_path, metrics_push_server=f"127.0.0.1:{collector.port}", metrics_push_interval=3600
    )
    running = serve(folder)
    assert "data:" in running.infer("streaming", text(), "infer_stream").text
    assert collector.metrics == {}
    assert running.stop() == 0, running.text()
    assert collector.total("inferstream.calls", model_name="streaming", call_end="success") == 1
    assert collector.total("inferstream.stream.items", model_name="streaming") > 0


def test_text_models_have_generative_metrics(tmp_path: Path, serve, collector: Collector) -> None:
    folder = folder_of(tmp_path, metrics_push_server=f"127.0.0.1:{collector.port}", metrics_push_interval=0.1)
    write_text_model(folder, "tokens")
    running = serve(folder)
    assert running.infer("echo", text()).status_code == 200
    for _ in range(2):
        assert running.infer("tokens", {"prompt": "one two three"}, "generate_stream").status_code == 200
    labels = {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "inferstream",
        "gen_ai.request.model": "tokens",
    }
    for name, count in (
        ("gen_ai.server.request.duration", 2),
        ("gen_ai.server.time_to_first_token", 2),
        ("gen_ai.server.time_per_output_token", 4),
        ("gen_ai.client.token.usage", 4),
    ):
        eventually(lambda name=name, count=count: collector.total(name, **labels) == count)
        assert collector.total(name) == count
    for kind, count in (("input", 10), ("output", 102)):
        (used,) = collector.points("gen_ai.client.token.usage", **labels, **{"gen_ai.token.type": kind})
        assert (used.count, used.sum, used.explicit_bounds[-1]) == (2, 2 * count, 4**13)


def test_each_front_end_pushes_its_metrics(tmp_path: Path, start, collector: Collector) -> None:
    folder = folder_of(
        tmp_path,
        frontends=2,
        metrics_push_server=f"127.0.0.1:{collector.port}",
        metrics_push_interval=0.1,
    )
    running = start(folder)
    with clients(running) as opened:
        for client in opened:
            assert client.post("/v2/models/echo/infer", json=text()).status_code == 200
    eventually(lambda: collector.total("inferstream.calls", model_name="echo") == len(opened))
    pids = {running.process.pid, *front_ends(running)}
    assert {int(instance.rpartition("-")[2]) for instance in collector.metrics} == pids


def test_missing_collector_only_logs_warnings(tmp_path: Path, serve) -> None:
    running = serve(folder_of(tmp_path, metrics_push_server="127.0.0.1:1", metrics_push_interval=0.05))
    assert running.infer("echo", text()).status_code == 200
    eventually(lambda: "metrics to 127.0.0.1:1," in running.text())
    assert running.stop() == 0, running.text()
