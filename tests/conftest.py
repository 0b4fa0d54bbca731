"""One server with well-behaved and faulty models for every test that does not need its own."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serving import Running, write_all_models


@pytest.fixture(scope="session", params=[0, 2], ids=["in-process", "workers"])
def workers(request: pytest.FixtureRequest) -> int:
    """Nothing a client sees may depend on it, so whatever uses a server runs with and without."""
    return request.param


@pytest.fixture(scope="session")
def server(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_all_models(tmp_path_factory.mktemp("served") / "models")
    settings = {"max_body_bytes": 4194304, "header_timeout": 2, "body_timeout": 2}
    (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Start servers for what has nothing to do with workers; they are stopped when the test ends."""
    started: list[Running] = []

    def start(folder: Path, *flags: str, **options: object) -> Running:
        started.append(Running(folder, *flags, **options))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def serve(start: Callable[..., Running], workers: int) -> Callable[..., Running]:
    """Start servers on folders of the test's own, with and without workers."""

    def serve(folder: Path, *flags: str, **options: object) -> Running:
        options.setdefault("INFERSTREAM_PARALLEL_WORKERS", str(workers))
        return start(folder, *flags, **options)

    return serve
