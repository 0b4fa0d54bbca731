"""One watched server, with workers and front ends, for all classes that need nothing of their own."""

from collections.abc import Iterator

import pytest

from tests.cve.audited import Audited, write_models
from tests.cve.surfaces import everywhere


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audited") / "models"
    limits = {"max_body_bytes": 2**22, "header_timeout": 5, "body_timeout": 5, "shutdown_grace": 2}
    running = Audited(write_models(folder, frontends=2, parallel_workers=1, cache_enabled=True, **limits))
    everywhere(running, "warm")  # what is imported late is there
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def watched(audited: Audited) -> Iterator[Audited]:
    """The server, with nothing noted yet; it serves on when the test ends."""
    audited.mark()
    yield audited
    audited.probe()
