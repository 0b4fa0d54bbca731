"""Several threads parse large JSON at once."""

import gc
import sys
from collections.abc import Iterator
from threading import Thread

import pytest

from inferstream.protos.json_arrays import _loads


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.enable()


@pytest.mark.usefixtures("many_switches")
def test_the_garbage_collector_runs_after_threads_have_parsed() -> None:
    for _ in range(250):
        threads = [Thread(target=lambda: [_loads(b"[1]") for _ in range(300)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert gc.isenabled()
