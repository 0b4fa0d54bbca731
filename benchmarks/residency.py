"""Many models under little memory: 200 models of 50 MB under 1 GB, called by Zipf's law from several callers.

Memory is the sum of the workers' PSS, sampled here; a cold call is one that came with a load.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx

CODE = """
import os
from inferstream import MLModel
from inferstream.types import InferenceResponse, ResponseOutput


class Heavy(MLModel):
    async def load(self):
        self.ballast = b"x" * (50 * 10**6)
        return True

    async def predict(self, request):
        output = ResponseOutput(name="pid", shape=[1], datatype="INT64", data=[os.getpid()])
        return InferenceResponse(model_name=self.name, outputs=[output])
"""
REQUEST = {"inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "data": [1]}]}
PORT = 18180


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=300.0)
    options.add_argument("--models", type=int, default=200)
    options.add_argument("--limit", default="1GB")
    options.add_argument("--callers", type=int, default=4)
    options.add_argument("--exponent", type=float, default=1.2, help="of Zipf's law")
    options.add_argument("--spares", type=int, default=1)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.models, given.limit, given.spares)
        command = [sys.executable, "-m", "inferstream", "start", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            print(json.dumps(measure(server.pid, given), indent=1))
        finally:
            server.terminate()
            server.wait(30)


def write(folder: Path, models: int, limit: str, spares: int) -> None:
    (folder / "heavy.py").write_text(CODE)
    for number in range(models):
        at = folder / f"m{number}"
        at.mkdir()
        settings = {"name": f"m{number}", "implementation": "heavy.Heavy", "load": "demand"}
        (at / "model-settings.json").write_text(json.dumps(settings))
        (at / "heavy.py").write_text(CODE)
    ports = {"http_port": PORT, "grpc_port": None, "metrics_port": PORT}
    (folder / "settings.json").write_text(json.dumps({**ports, "max_memory": limit, "spare_workers": spares}))


def measure(pid: int, given: argparse.Namespace) -> dict[str, object]:
    url = f"http://127.0.0.1:{PORT}"
    while True:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/v2/health/ready").status_code == 200:
                break
        time.sleep(0.1)
    weights = [1 / (rank + 1) ** given.exponent for rank in range(given.models)]
    until = time.monotonic() + given.seconds
    seconds: list[float] = []
    statuses: Counter[int] = Counter()

    def call(seed: int) -> None:
        chosen = random.Random(seed)
        with httpx.Client(base_url=url, timeout=120) as client:
            while time.monotonic() < until:
                (number,) = chosen.choices(range(given.models), weights)
                began = time.perf_counter()
                statuses[client.post(f"/v2/models/m{number}/infer", json=REQUEST).status_code] += 1
                seconds.append(time.perf_counter() - began)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(given.callers)]
    for caller in callers:
        caller.start()
    largest = 0
    while any(caller.is_alive() for caller in callers):
        largest = max(largest, sum(map(pss, children(pid))))
        time.sleep(0.1)
    totals = total(httpx.get(f"{url}/metrics").text)
    loads = int(totals["inferstream_model_loads_total"])
    waits = totals["inferstream_cold_wait_seconds_sum"] / max(
        totals["inferstream_cold_wait_seconds_count"], 1
    )
    warm = sorted(seconds)[: max(len(seconds) - int(totals["inferstream_cold_wait_seconds_count"]), 1)]
    return {
        "calls": sum(statuses.values()),
        "statuses": statuses,
        "loads": loads,
        "evictions": int(totals["inferstream_model_evictions_total"]),
        "workers lost": int(totals["inferstream_workers_lost_total"]),
        "largest sum of PSS, MB": round(largest / 1e6),
        "warm call, median ms": round(statistics.median(warm) * 1000, 2),
        "cold wait, mean ms": round(waits * 1000),
    }


def total(page: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for line in page.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            sums[name.partition("{")[0]] += float(value)  # type: ignore[assignment]
    return sums


def children(pid: int) -> list[int]:
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            pids += map(int, task.read_text().split())
    return pids


def pss(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
