"""What the server costs in a replica of Ray Serve, beside a deployment without it that streams the same.

Each arm has the same load in the same time, because Ray's other processes cost as much when nobody calls.
`RAY_SERVE_ENABLE_HA_PROXY=1 .venv/ray/bin/python -m benchmarks.ray_serve`: CPU of all processes of an arm, in turns.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

os.environ |= {
    "RAY_AUTH_MODE": "disabled",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}

import ray
from ray import serve
from ray.serve.config import HTTPOptions
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from inferstream.plugins.ray import application

PORT, DIRECT_PORT = 18000, 18080
ROUNDS, CALLERS, CALLS, EVERY, STREAMS, TOKENS = 9, 8, 60, 0.04, 20, 300
HERTZ = os.sysconf("SC_CLK_TCK")
APP = """
from collections.abc import AsyncIterator
from inferstream import App
import asyncio
app = App()
@app.model
async def echo(text: str) -> str:
    return text
@app.model
async def count(items: int) -> AsyncIterator[int]:
    for item in range(items):
        await asyncio.sleep(0.005)
        yield item
"""
OURS = ("/ours/v2/models/echo/generate", "/ours/v2/models/count/generate_stream")
EVENT = 'data: {"output":%d,"model_name":"count","model_version":""}\n\n'


@serve.deployment(num_replicas=1, max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0.1})
class Bare:
    async def __call__(self, request: Request) -> JSONResponse | StreamingResponse:
        body = await request.json()
        if "text" in body:
            return JSONResponse({"output": body["text"], "model_name": "echo"})
        return StreamingResponse(self.stream(body["items"]), media_type="text/event-stream")

    async def stream(self, items: int):
        for item in range(items):
            await asyncio.sleep(0.005)
            yield EVENT % item


def below(pid: int) -> list[int]:
    children = [
        int(each)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for each in task.read_text().split()
    ]
    return [pid, *(each for child in children for each in below(child))]


def cpu(pids: list[int]) -> float:
    used = 0
    for pid in pids:
        try:
            used += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return used / HERTZ


async def singles(asking: httpx.AsyncClient, path: str) -> int:
    async def caller() -> None:
        due = time.perf_counter()
        for _ in range(CALLS):
            (await asking.post(path, json={"text": "hello"})).raise_for_status()
            due += EVERY
            await asyncio.sleep(due - time.perf_counter())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * CALLS


async def streams(asking: httpx.AsyncClient, path: str) -> int:
    async def one() -> int:
        return (await asking.post(path, json={"items": TOKENS})).text.count("data: ")

    return sum(await asyncio.gather(*(one() for _ in range(STREAMS))))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    (folder / "words.py").write_text(APP)
    os.chdir(folder)
    command = ["-m", "inferstream", "start", "words:app", "--http-port", str(DIRECT_PORT), "--grpc-port", "0"]
    direct = subprocess.Popen(
        [sys.executable, *command, "--metrics-port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    base, server = f"http://127.0.0.1:{PORT}", f"http://127.0.0.1:{DIRECT_PORT}"
    paths = {"ours": (base + OURS[0], base + OURS[1]), "bare": (base + "/bare", base + "/bare")}
    paths["direct"] = (server + OURS[0].removeprefix("/ours"), server + OURS[1].removeprefix("/ours"))
    costs: dict[tuple[str, str], list[float]] = {}
    try:
        ray.init(
            num_cpus=2,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=str(folder),
        )
        serve.start(http_options=HTTPOptions(host="127.0.0.1", port=PORT))
        serve.run(
            application("words:app", ray_actor_options={"num_cpus": 0.1}), name="ours", route_prefix="/ours"
        )
        serve.run(Bare.bind(), name="bare", route_prefix="/bare")
        for _ in range(ROUNDS):
            for arm, (single, stream) in paths.items():
                for kind, load, path in (("request", singles, single), ("token", streams, stream)):
                    pids = (
                        below(direct.pid)
                        if arm == "direct"
                        else [each for each in below(os.getpid()) if each not in (os.getpid(), direct.pid)]
                    )

                    async def run(load=load, path=path) -> int:
                        async with httpx.AsyncClient(timeout=120) as asking:
                            return await load(asking, path)

                    before = cpu(pids)
                    done = asyncio.run(run())
                    costs.setdefault((arm, kind), []).append((cpu(pids) - before) / done * 1e6)
        for (arm, kind), each in sorted(costs.items()):
            print(
                json.dumps(
                    {
                        "arm": arm,
                        "each": kind,
                        "cpu_us": round(statistics.median(each)),
                        "low": round(min(each)),
                        "high": round(max(each)),
                    }
                )
            )
    finally:
        serve.shutdown()
        ray.shutdown()
        direct.terminate()
        direct.wait(30)


if __name__ == "__main__":
    main()
