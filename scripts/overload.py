"""Asks a model for ten times what it can do, and looks at what it still does, who is refused, and how fast.

The server has a core, the load another. What the load's thousand calls a second see is mostly each other; so
`probe.py` asks as well, in a process that goes before the load, and its times are the ones that count.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from math import inf
from pathlib import Path

SECONDS = 0.05
SLOTS = 5
QUEUE = 50
CAPACITY = SLOTS / SECONDS
"""Calls per second that the model can do at the very most."""

GOODPUT, REFUSAL, HEALTH = 0.9, 0.010, 0.050
"""The goals: a share of the peak, and seconds within which 99 of 100 are answered."""

PROBE = Path(__file__).with_name("probe.py")
PROBED = {"health 200", "infer 200", "infer 429", "infer 504", "late"}
SETTLED = 2.0
"""Seconds until the queue is full, before which the probe does not begin."""

RACE = 0.005
"""Seconds: a request whose time runs out between the server's look at the clock and the model's is not late."""

MODEL = f"""
import asyncio
import os
from inferstream import MLModel, request_context
from inferstream.types import InferenceResponse

class Model(MLModel):
    async def predict(self, payload):
        left = request_context().time_remaining
        with open(os.environ["OVERLOAD_LOG"], "a") as file:
            file.write(f"{{payload.id}} {{left}}\\n")
        await asyncio.sleep({SECONDS})
        return InferenceResponse(model_name=self.name, outputs=[])
"""
SETTINGS = {"implementation": "overload_model.Model", "max_concurrency": SLOTS, "max_queue": QUEUE}
CALLERS = 400
LIMITS = ("0.1", "2")
"""Time limits of the requests in turn: the first is over long before a full queue is through."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--factor", type=float, default=10, help="times what the model can do")
    options.add_argument("--workers", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "models", "work")
        model.mkdir(parents=True)
        (model / "overload_model.py").write_text(MODEL)
        (model / "model-settings.json").write_text(json.dumps(SETTINGS))
        output, log = Path(folder, "output"), Path(folder, "log")
        log.touch()
        ports = [part for kind in ("http", "grpc", "metrics") for part in (f"--{kind}-port", "0")]
        variables = {"INFERSTREAM_PARALLEL_WORKERS": str(given.workers), "OVERLOAD_LOG": str(log)}
        servers, callers = cores()
        with output.open("w") as file:
            server = subprocess.Popen(
                [sys.executable, "-m", "inferstream", "start", str(model.parent), *ports],
                env={**os.environ, **variables},
                stdout=file,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: os.sched_setaffinity(0, servers),
            )
        os.sched_setaffinity(0, callers)
        try:
            return asyncio.run(run(server.pid, port(output), log, given.seconds, given.factor))
        finally:
            server.terminate()
            print("the server ended with", server.wait(40))


def cores() -> tuple[set[int], set[int]]:
    """Those of the server, and the one of the load and the probe; the same where there is no other."""
    found = sorted(os.sched_getaffinity(0))
    return set(found[:-1] or found), {found[-1]}


def port(output: Path) -> int:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if found := re.search(r"^REST +\S+:(\d+)/docs\n[\s\S]*gRPC ", output.read_text(), re.M):
            return int(found[1])
        time.sleep(0.05)
    raise SystemExit(output.read_text())


class Client:
    """One caller on a connection of its own, who notes how each request ended and how long that took."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._name = name
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.statuses: dict[str, int] = {}
        self.took: dict[int, list[float]] = {}

    async def infer(self, limit: str | None = None) -> None:
        name = f"{self._name}-{len(self.statuses)}"
        tensor = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
        headers = "" if limit is None else f"X-Request-Timeout: {limit}\r\n"
        body = json.dumps({"id": name, "inputs": [tensor]})
        self.statuses[name] = await self._ask("POST /v2/models/work/infer", headers, body)

    async def _ask(self, line: str, headers: str, body: str) -> int:
        request = f"{line} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}"
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        started = time.perf_counter()
        writer.write(request.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
        await reader.readexactly(length)
        status = int(head[9:12])
        self.took.setdefault(status, []).append(time.perf_counter() - started)
        return status


async def peak(port: int, seconds: float) -> float:
    """Calls per second when as many ask as can run, and as many more wait."""
    callers = [Client(port, f"peak-{i}") for i in range(2 * SLOTS)]
    until = time.monotonic() + seconds

    async def ask(client: Client) -> None:
        while time.monotonic() < until:
            await client.infer()

    await asyncio.gather(*map(ask, callers))
    return len(together(callers)[200]) / seconds


def together(callers: list[Client]) -> dict[int, list[float]]:
    """Seconds each answer took, by its status."""
    found: dict[int, list[float]] = {}
    for client in callers:
        for status, took in client.took.items():
            found.setdefault(status, []).extend(took)
    return found


async def ask_at_a_pace(client: Client, first: float, period: float, until: float) -> None:
    """Ask every `period` seconds, and at once where the last answer took longer."""
    due = first
    limits = cycle(LIMITS)
    while (now := time.monotonic()) < until:
        await asyncio.sleep(due - now)
        await client.infer(next(limits))
        due = max(due + period, time.monotonic())


def waits(pid: int) -> float:
    """Seconds that the server's main thread has been ready to run and did not."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def cpu(pid: int) -> float:
    """Seconds of processor time that the server has used, without its workers."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def run(pid: int, port: int, log: Path, seconds: int, factor: float) -> int:
    best = await peak(port, min(10, seconds))
    callers = [Client(port, f"load-{i}") for i in range(CALLERS)]
    probe = [sys.executable, str(PROBE), str(port), str(SETTLED), str(seconds - SETTLED), "work"]
    period = CALLERS / (factor * CAPACITY)
    start, used, waited = time.monotonic(), cpu(pid), waits(pid)
    firsts = [start + i * period / CALLERS for i in range(CALLERS)]
    probing = await asyncio.create_subprocess_exec(*probe, stdout=subprocess.PIPE)
    os.nice(10)  # the probe, which is started before, goes first where they meet
    await asyncio.gather(
        *(
            ask_at_a_pace(client, first, period, start + seconds)
            for client, first in zip(callers, firsts, strict=True)
        )
    )
    took = time.monotonic() - start
    probed, _ = await probing.communicate()
    asked = sum(len(client.statuses) for client in callers)
    print(f"the server used {(cpu(pid) - used) / asked * 1e6:.0f} µs of a core for each request")
    print(f"and waited {(waits(pid) - waited) / took:.1%} of the time for its core")
    return report(callers, json.loads(probed), log, best, took)


def report(callers: list[Client], probed: dict[str, list[float]], log: Path, best: float, took: float) -> int:
    statuses = {name: status for client in callers for name, status in client.statuses.items()}
    ends = Counter(statuses.values())
    lines = map(str.split, log.read_text().splitlines())
    computed = {name: left for name, left in lines if name in statuses}
    late = [name for name, left in computed.items() if left != "None" and float(left) <= -RACE]
    refused_and_run = [name for name, status in statuses.items() if status == 429 and name in computed]
    goodput = ends[200] / took
    times = sum(ends.values()) / took / best
    print(f"{sum(ends.values())} requests in {took:.1f} s, {times:.1f} times the peak: {dict(ends)}")
    print(f"peak {best:.1f}/s, now {goodput:.1f}/s: {goodput / best:.1%} (goal {GOODPUT:.0%})")
    print(f"computed {len(computed)}, of which expired before {len(late)}, refused {len(refused_and_run)}")
    refusal = shown("refusals", probed.get("infer 429", []), REFUSAL)
    alive = shown("health", probed.get("health 200", []), HEALTH)
    shown("the probe woke late by", probed["late"])
    shown("refusals, as the load saw them", together(callers).get(429, []))
    strange = set(ends) - {200, 429, 504} or set(probed) - PROBED
    good = goodput >= GOODPUT * best and refusal and alive and not late and not refused_and_run
    return 0 if good and not strange else 1


def shown(what: str, took: list[float], goal: float = inf) -> bool:
    if not took:
        print(f"{what}: none")
        return goal == inf
    found = sorted(took)
    p50, p99 = found[len(found) // 2], found[int(len(found) * 0.99)]
    print(
        f"{what}: {len(found)}, p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, "
        f"slowest {found[-1] * 1e3:.1f} ms" + (f" (goal {goal * 1e3:.0f} ms)" if goal < inf else "")
    )
    return p99 < goal


if __name__ == "__main__":
    raise SystemExit(main())
