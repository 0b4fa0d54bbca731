"""One server with well-behaved and faulty models for every test that does not need its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Running, write_all_models


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_all_models(tmp_path_factory.mktemp("served") / "models")
    (folder / "settings.json").write_text(
        '{"max_body_bytes": 4194304, "header_timeout": 2, "body_timeout": 2}'
    )
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[object]:
    """Start servers on folders of the test's own; they are stopped when the test ends."""
    started: list[Running] = []

    def start(folder: Path, *flags: str, **options: object) -> Running:
        started.append(Running(folder, *flags, **options))
        return started[-1]

    yield start
    for running in started:
        running.stop()
