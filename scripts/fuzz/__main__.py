"""Fuzzes REST, WebSocket and gRPC at once: no server errors, no tracebacks in the log, no memory kept."""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from scripts.chaos import address

from . import grpc, rest, websocket

APP = """
from collections.abc import Iterator
import numpy as np
from numpy.typing import NDArray
from inferstream import App, MLModel
from inferstream.types import InferenceRequest, InferenceResponse

app = App()

@app.model
def words(prompt: str) -> Iterator[str]:
    yield from prompt.split()[:20]

@app.model
def add(a: int, b: float = 1.0) -> float:
    return a + b

@app.model
def total(x: NDArray[np.int64]) -> int:
    return int(np.asarray(x).size)
"""
ECHO = """
from inferstream import MLModel
from inferstream.types import InferenceResponse, ResponseOutput

class Echo(MLModel):
    async def predict(self, payload):
        outputs = [ResponseOutput(name="output", datatype="INT64", shape=[1], data=[len(payload.inputs)])]
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""
GROWTH = 20 * 1024
"""KiB by which the last third of the run may need more memory than the first."""

CLIENTS = {rest: 8, websocket: 2, grpc: 2}
"""Clients at each door. Those of REST wait often, for answers that are not due."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600, help="length of the run; all doors at once")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "app.py").write_text(APP)
        (root / "echo").mkdir()
        (root / "echo" / "model.py").write_text(ECHO)
        (root / "echo" / "model-settings.json").write_text('{"name": "echo", "implementation": "model.Echo"}')
        log = root / "log"
        command = [
            sys.executable,
            "-m",
            "inferstream",
            "start",
            folder,
            "--http-port",
            "0",
            "--grpc-port",
            "0",
        ]
        with log.open("w") as output:
            server = subprocess.Popen(
                [*command, "--metrics-port", "0"], stdout=output, stderr=subprocess.STDOUT, cwd=folder
            )
        try:
            return asyncio.run(run(server, log, given.seconds, given.seed))
        finally:
            server.kill()


async def run(server: subprocess.Popen[bytes], log: Path, seconds: float, seed: int) -> int:
    """Fuzz, and say what was found; the exit code."""
    rest_port = int(address(log).rpartition(":")[2])
    grpc_port = int(re.findall(r"^gRPC +\S+:(\d+)", log.read_text(), re.M)[0])
    until = asyncio.get_running_loop().time() + seconds
    seen: Counter[str] = Counter()
    faults: list[str] = []
    sizes: list[int] = []
    async with asyncio.TaskGroup() as group:
        for door, clients in CLIENTS.items():
            port = grpc_port if door is grpc else rest_port
            for number in range(clients):
                group.create_task(door.fuzz(port, seed * 100 + number, until, seen, faults))
        while asyncio.get_running_loop().time() < until and server.poll() is None:
            await asyncio.sleep(min(1.0, seconds / 30))
            sizes.append(pss(server.pid))
    alive = server.poll() is None
    server.terminate()
    code = await asyncio.to_thread(server.wait, 30)
    third = max(len(sizes) // 3, 1)
    first, last = median(sizes[:third]), median(sizes[-third:])
    text = log.read_text(errors="replace")
    tracebacks = re.findall(r"^\w*(?:Error|Exception).*$", text, re.M) if "Traceback" in text else []
    print(*(f"{count:9,} {name}" for name, count in sorted(seen.items())), sep="\n")
    print(f"memory: {first / 1024:.1f} MiB in the first third, {last / 1024:.1f} in the last")
    for fault in dict.fromkeys(faults[:20]):
        print("FAULT", fault)
    for line in dict.fromkeys(tracebacks[:20]):
        print("TRACEBACK", line)
    wrong = [
        *(["the server ended early"] if not alive else []),
        *([f"the server ended with {code}"] if code else []),
        *([f"{len(faults)} faults"] if faults else []),
        *([f"{len(tracebacks)} tracebacks in the log"] if tracebacks else []),
        *([f"memory grew by {(last - first) / 1024:.1f} MiB"] if last > first + GROWTH else []),
    ]
    print("; ".join(wrong) or "nothing found")
    return 1 if wrong else 0


def pss(pid: int) -> int:
    """KiB of memory of the server's own, and its part of what it shares."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(map(int, re.findall(r"^Pss:\s+(\d+)", text, re.M)))


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(main())
