"""Fuzzes REST, WebSocket and gRPC at once: no server errors, no tracebacks in the log, no call left, no memory kept."""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from math import inf
from pathlib import Path
from statistics import median

import httpx

from scripts.chaos import address

from . import corpus, grpc, rest, websocket
from .run import OWN, Run

FUNCTIONS = """
from collections.abc import Iterator
import numpy as np
from numpy.typing import NDArray

def words(prompt: str) -> Iterator[str]:
    yield from prompt.split()[:20]

def add(a: int, b: float = 1.0) -> float:
    return a + b

def total(x: NDArray[np.int64]) -> int:
    return int(np.asarray(x).size)
"""
GROWTH = 20 * 1024
"""KiB by which the last third of the run may need more memory than the first."""

CLIENTS = {rest: 32, websocket: 4, grpc: 4}
"""Clients at each door. Those of REST wait often, for answers that are not due."""

TRACEBACK = re.compile(r"^.*(model \S+ failed|)[^\n]*\nTraceback .*\n(?:[ \t].*\n)*(.*)$", re.M)
"""What a line of the log says of a model, and the last line of the traceback below it."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600, help="length of the run; all doors at once")
    options.add_argument("--requests", type=int, help="end after so many answers, and not after seconds")
    options.add_argument(
        "--schemathesis", type=os.path.abspath, help="this program of theirs reads our OpenAPI document first"
    )
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "models")
        corpus.serve(root)
        for name in ("words", "add", "total"):
            (root / name).mkdir()
            (root / name / "functions.py").write_text(FUNCTIONS)
            settings = {"name": name, "implementation": f"functions.{name}"}
            (root / name / "model-settings.json").write_text(json.dumps(settings))
        log = Path(folder, "log")
        command = [
            sys.executable,
            "-m",
            "inferstream",
            "start",
            str(root),
            "--http-port",
            "0",
            "--grpc-port",
            "0",
        ]
        with log.open("w") as output:
            server = subprocess.Popen(
                [*command, "--metrics-port", "0"], stdout=output, stderr=subprocess.STDOUT, cwd=root
            )
        try:
            return asyncio.run(fuzz(server, log, given))
        finally:
            server.kill()


async def fuzz(server: subprocess.Popen[bytes], log: Path, given: argparse.Namespace) -> int:
    """Fuzz, and say what was found; the exit code."""
    rest_port = int(address(log).rpartition(":")[2])
    grpc_port = int(re.findall(r"^gRPC +\S+:(\d+)", log.read_text(), re.M)[0])
    unlike = given.schemathesis is not None and await asyncio.to_thread(unlike_document, rest_port, given)
    run = Run(inf if given.requests else given.seconds, given.requests)
    sizes: list[int] = []
    async with asyncio.TaskGroup() as group:
        for door, clients in CLIENTS.items():
            port = grpc_port if door is grpc else rest_port
            for number in range(clients):
                group.create_task(door.fuzz(port, given.seed * 100 + number, run))
        while not run.over and server.poll() is None:
            await asyncio.sleep(min(1.0, given.seconds / 30))
            sizes.append(pss(server.pid))
    alive = server.poll() is None
    left = await left_over(rest_port) if alive else ""
    server.terminate()
    code = await asyncio.to_thread(server.wait, 30)
    third = max(len(sizes) // 3, 1)
    first, last = median(sizes[:third]), median(sizes[-third:])
    text = log.read_text(errors="replace")
    tracebacks = [last for head, last in TRACEBACK.findall(text) if not OWN.search(head.capitalize())]
    print(*(f"{count:9,} {name}" for name, count in sorted(run.seen.items())), sep="\n")
    print(f"memory: {first / 1024:.1f} MiB in the first third, {last / 1024:.1f} in the last")
    for fault in dict.fromkeys(run.faults[:20]):
        print("FAULT", fault)
    for line in dict.fromkeys(tracebacks[:20]):
        print("TRACEBACK", line)
    wrong = [
        *(["the server ended early"] if not alive else []),
        *([f"the server ended with {code}"] if code else []),
        *([left] if left else []),
        *(["answers are not as the OpenAPI document says"] if unlike else []),
        *([f"{len(run.faults)} faults"] if run.faults else []),
        *([f"{len(tracebacks)} tracebacks in the log"] if tracebacks else []),
        *([f"memory grew by {(last - first) / 1024:.1f} MiB"] if last > first + GROWTH else []),
    ]
    print("; ".join(wrong) or "nothing found")
    return 1 if wrong else 0


def unlike_document(port: int, given: argparse.Namespace) -> bool:
    """Whether an answer to a request made from our OpenAPI document is none that the document has.

    Readiness is left out: one of the corpus' models is never ready.
    """
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [given.schemathesis, "run", f"http://127.0.0.1:{port}/openapi.json", "--checks", checks]
    options = [
        "--continue-on-failure",
        "--no-color",
        f"--seed={given.seed}",
        "--max-examples=50",
        "--warnings=off",
    ]
    only = ["--phases=examples,coverage,fuzzing", "--exclude-path-regex=/health"]
    with tempfile.TemporaryDirectory() as notes:
        return subprocess.run([*command, *options, *only], cwd=notes).returncode != 0


async def left_over(port: int) -> str:
    """Calls that are left two minutes after their clients, or an answer that should be right; empty for neither."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for _ in range(240):
            load = (await client.get("/v2/load")).json()
            if not load["running"] and not load["waiting"]:
                answer = await client.post("/v2/models/add/generate", json={"a": 1})
                return "" if answer.is_success else f"a right call is answered {answer.text}"
            await asyncio.sleep(0.5)
    busy = [name for name, each in load["models"].items() if each["running"] or each["waiting"]]
    return f"calls are left of {', '.join(busy)}"


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
