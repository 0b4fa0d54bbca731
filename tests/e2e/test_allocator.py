"""`keep_freed_memory` in each process of a server: the memory of freed tensors stays, or goes back to the kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inferstream.allocator import VARIABLES
from tests.allocation import PROBE, glibc
from tests.frontends import clients, front_ends, workers
from tests.serving import Running, text, write_model

MODEL = f"""
from inferstream import MLModel
{PROBE}
class Probe(MLModel):
    async def predict(self, payload):  # a coroutine runs in the main thread, whose heap the probe looks at
        return self.encode_response([f"{{os.getpid()}} {{kept()}}"])
"""

pytestmark = glibc


@pytest.fixture(params=["true", "false"], ids=["kept", "returned"])
def keeps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INFERSTREAM_KEEP_FREED_MEMORY", request.param)
    return request.param == "true"


@pytest.fixture
def probed(
    keeps: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Running, dict[int, int]]]:
    """A server with these flags, and the bytes that the first call in each process has left there."""
    folder = tmp_path / "models"
    write_model(folder, "probe", "probe.Probe", MODEL, name="probe")
    server = Running(folder, *request.param)
    try:
        left: dict[int, int] = {}
        with clients(server) as opened:
            for client in opened:
                response = client.post("/v2/models/probe/infer", json=text())
                pid, kept = map(int, response.json()["outputs"][0]["data"][0].split())
                left.setdefault(pid, kept)
        yield server, left
    finally:
        server.stop()


def _check(left: dict[int, int], keeps: bool) -> None:
    for kept in left.values():
        assert (kept > 24 * 2**20) is keeps, left
        assert (kept < 8 * 2**20) is not keeps, left


@pytest.mark.parametrize("probed", [("--frontends", "2")], indirect=True, ids=["front ends"])
def test_allocator_setting_reaches_every_front_end(
    keeps: bool, probed: tuple[Running, dict[int, int]]
) -> None:
    server, left = probed
    assert set(left) == {server.process.pid, *front_ends(server)}
    _check(left, keeps)


@pytest.mark.parametrize("probed", [("--workers", "2")], indirect=True, ids=["workers"])
def test_the_setting_reaches_every_worker(keeps: bool, probed: tuple[Running, dict[int, int]]) -> None:
    server, left = probed
    assert set(left) == set(workers(server))
    _check(left, keeps)
