"""`server bench` against a real server."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import SERVER, Running, fp32, text, write_all_models


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server: a client cannot tell whether it has workers."""
    running = Running(write_all_models(tmp_path_factory.mktemp("measured") / "models"))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def bench(measured: Running, tmp_path: Path):
    def run(model: str, *flags: str, request: dict | None = None) -> subprocess.CompletedProcess[str]:
        grpc = "grpc" in flags
        command = [*SERVER, "bench", model, "-u", measured.grpc if grpc else measured.url]
        if request is not None:
            (tmp_path / "request.json").write_text(json.dumps(request))
            command += ["--request", str(tmp_path / "request.json")]
        command += ["-d", "0.5", "--warmup", "0.1", "-c", "2", *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize("flags", [[], ["--binary-data"], ["--rate", "50"]], ids=["closed", "binary", "open"])
def test_calls_are_timed(bench, tmp_path: Path, transport: str, flags: list[str]) -> None:
    figures = tmp_path / "figures.json"
    ran = bench("declared", "-t", transport, "--json", str(figures), "--max-errors", "0", *flags)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(figures.read_text())
    assert found["answered"] > 5
    assert found["failed"] == found["late"] == 0
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"] <= found["latency_ms"]["max"]
    assert re.search(r"\d answered", ran.stderr)


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_streams_are_timed_item_by_item(bench, tmp_path: Path, transport: str) -> None:
    figures = tmp_path / "figures.json"
    request = text(parameters={"items": 5, "delay": 0.005})
    ran = bench("streaming", "--stream", "-t", transport, "--json", str(figures), request=request)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(figures.read_text())
    assert found["items"] == 5 * found["answered"]
    assert found["gap_ms"]["p50"] > 1
    assert found["first_item_ms"]["max"] <= found["latency_ms"]["max"]


def test_exceeded_limit_fails_the_run(bench) -> None:
    ran = bench("echo", "--max-p99", "0.001", "--min-rate", "1", request=fp32([1.0]))
    assert ran.returncode == 1
    assert "not good enough: latency p99" in ran.stderr
    assert "rate" not in ran.stderr.split("not good enough", 1)[1]


def test_failures_are_counted_by_message(bench) -> None:
    ran = bench("failing", "--max-errors", "0.5", request=text())
    assert ran.returncode == 1
    assert re.search(r"\d+ failed: 500: ", ran.stderr), ran.stderr
    assert "no call was answered" in ran.stderr


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_unmeasurable_target_is_one_line(bench, transport: str) -> None:
    ran = bench("missing", "-t", transport)
    assert ran.returncode == 1
    assert re.fullmatch(r"error: (404|NOT_FOUND): .*missing.*\n", ran.stderr), ran.stderr
    ran = bench("echo", "-t", transport)
    assert ran.returncode == 1
    assert "declares no inputs; give a request with --request FILE" in ran.stderr
