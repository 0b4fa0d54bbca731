"""Two nodes of one cluster, at two loopback addresses: one is lost, and another takes its place."""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.ray.host import PATIENCE, PYTHON, RayHost
from tests.ray.test_stops import APP, begun, client, single, stream
from tests.serving import eventually

pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Ray here: `make ray`")

ONE_EACH = {"num_replicas": 2, "max_replicas_per_node": 1, "settings": {"shutdown_grace": 3.0}}


class Node:
    """A node that joins the cluster of a host."""

    def __init__(self, host: RayHost, address: str) -> None:
        self.address = address
        place = ["--address", host.cluster(), "--node-ip-address", address]
        size = ["--num-cpus", "1", "--object-store-memory", str(100 * 2**20), "--disable-usage-stats"]
        with (host.folder / f"node-{address}.output").open("w") as output:
            self._process = subprocess.Popen(
                [str(PYTHON), "-m", "ray.scripts.scripts", "start", *place, *size, "--block"],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=host.folder,
                env={**os.environ, **host.environment},
            )

    def processes(self) -> set[int]:
        """All of the node, its replica among them."""
        return {*_below(self._process.pid)}

    def lose(self) -> None:
        """End every process of the node at once, as the loss of a machine does."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE)


def _below(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text().split():
                yield from _below(int(child))


@pytest.fixture(params=[False, True], ids=["proxy", "haproxy"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RayHost]:
    (tmp_path / "counting.py").write_text(APP)
    # HAProxy calls the replicas of other nodes at their own addresses, where the same setting makes them listen.
    address = "0.0.0.0" if request.param else "127.0.0.1"
    options = {**ONE_EACH, "num_replicas": 1}
    running = RayHost("counting:app", tmp_path, haproxy=request.param, address=address, **options)
    yield running
    assert running.stop() == 0


async def test_lost_node_is_replaced(host: RayHost) -> None:
    nodes = [Node(host, "127.0.0.2")]
    try:
        await asyncio.to_thread(host.deploy, **ONE_EACH)
        await lost(host, nodes)
    finally:
        for node in nodes:
            node.lose()


async def lost(host: RayHost, nodes: list[Node]) -> None:
    async with client(host) as asking:
        await served_by(host, asking, nodes[0])
        calls = {f"s{i}": asyncio.create_task(stream(asking, f"s{i}", 100)) for i in range(40)}
        calls |= {f"c{i}": asyncio.create_task(single(asking, f"c{i}", 10.0)) for i in range(40)}
        await asyncio.to_thread(eventually, lambda: calls.keys() <= begun(host).keys(), 60)
        there, known = nodes[0].processes(), begun(host)
        where = {id: "lost" if known[id] in there else "other" for id in calls}
        nodes[0].lose()
        later = {f"l{i}": await single(asking, f"l{i}") for i in range(200)}
        ends = {id: await each for id, each in calls.items()}
        table = Counter((id[0], where[id], end) for id, end in ends.items())
        print(
            *(f"{row}: {number}" for row, number in sorted(table.items())), Counter(later.values()), sep="\n"
        )
        assert {*where.values()} == {"lost", "other"}
        assert {end for id, end in ends.items() if where[id] == "other"} == {"whole", "200"}
        assert not {end for id, end in ends.items() if where[id] == "lost"} & {"whole", "200"}
        # HAProxy may find one of its kept connections closed; a request that was on its way has not begun.
        assert not {id for id, end in later.items() if end != "200"} & begun(host).keys()
        nodes.append(Node(host, "127.0.0.3"))
        await served_by(host, asking, nodes[1])
        assert {await single(asking, f"e{i}") for i in range(100)} == {"200"}


async def served_by(host: RayHost, asking: httpx.AsyncClient, node: Node) -> None:
    """Wait until a replica of this node serves, and one of another node."""
    async with asyncio.timeout(PATIENCE):
        for turn in count():
            here = {f"{node.address}-{turn}-{i}" for i in range(20)}
            await asyncio.gather(*(single(asking, id) for id in here))
            serving = {pid for id, pid in begun(host).items() if id in here}
            if serving & (there := node.processes()) and serving - there:
                return
