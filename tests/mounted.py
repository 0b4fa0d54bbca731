"""Hosts of an application: programs of somebody else's that serve its ASGI application or its gRPC services."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.serving import Running, eventually, write_model

HOST = """
import os
import grpc
from fastapi import FastAPI
from inferstream import Application

def make():
    return Application(os.environ["MODELS"], parallel_workers=int(os.environ["WORKERS"]), shutdown_grace=1)

application = make()
app = FastAPI(lifespan=application.lifespan)
app.mount("/models", application.asgi)

alone = make().asgi

forgotten = FastAPI()
forgotten.mount("/models", make().asgi)

hidden = FastAPI(lifespan=(hiding := make()).lifespan)
hidden.get("/models/v2/{what}")(lambda what: what)
hidden.mount("/models", hiding.asgi)

async def rpc(started):
    application = make()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(application.grpc_services())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    if started:
        await application.start()
    print(f"Running on http://127.0.0.1:{port}", flush=True)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()
    await application.stop()
    await server.stop(1)

if __name__ == "__main__":
    import asyncio, signal, sys
    asyncio.run(rpc(sys.argv[1] == "started"))
"""

LEAVING = """
import os
from inferstream import MLModel

class Leaving(MLModel):
    async def predict(self, payload):
        return self.encode_response(["here"])

    async def unload(self):
        with open(os.environ["TEST_LOG"], "a") as file:
            file.write("unloaded\\n")
"""

COMMANDS = {
    "uvicorn": ("uvicorn", "host:{app}", "--port", "0", "--timeout-graceful-shutdown", "1"),
    "hypercorn": ("hypercorn", "host:{app}", "-b", "127.0.0.1:0", "--graceful-timeout", "1"),
}


def write_host(folder: Path) -> Path:
    """A folder with a host and a folder of models; returns the latter."""
    models = folder / "models"
    for name in ("Echo", "Slow", "Streaming", "Spinning", "BlockingStream", "Collecting", "Failing"):
        write_model(models, name.lower(), f"faulty_models.{name}")
    write_model(models, "leaving", "leaving.Leaving", LEAVING)
    (folder / "host.py").write_text(HOST)
    return models


class Host(Running):
    """A host process. It has the face of a server whose routes are below `prefix`."""

    def __init__(self, models: Path, workers: int, *command: str, prefix: str = "/models") -> None:
        self.folder = models
        self.output = models.parent / "host.output"
        self.log = models.parent / "host.log"
        self.log.touch()
        self._root = models.parent
        environment = {
            **os.environ,
            "TEST_LOG": str(self.log),
            "MODELS": str(models),
            "WORKERS": str(workers),
            "PYTHONPATH": os.pathsep.join((str(self._root), os.environ.get("PYTHONPATH", ""))),
        }
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._root,
                env=environment,
            )
        try:
            eventually(lambda: self._address() or self.process.poll() is not None, 60)
            assert self.process.poll() is None, self.text()
        except BaseException:
            self.process.kill()
            raise
        self.http_port = self.grpc_port = int(self._address()[1])
        self.grpc = f"127.0.0.1:{self.grpc_port}"
        self.url = f"http://127.0.0.1:{self.http_port}{prefix}"

    def _address(self) -> re.Match[str] | None:
        return re.search(r"[Rr]unning on http://\S*?:(\d+)", self.text())

    def leave_during(self, path: str, body: bytes) -> None:
        """Ask, and close the connection as soon as the model has begun."""
        begun = self.log.read_text().count("start")
        with socket.create_connection(("127.0.0.1", self.http_port)) as connection:
            prefix = self.url.partition(str(self.http_port))[2]
            head = f"POST {prefix}{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            eventually(lambda: self.log.read_text().count("start") > begun, 20)


def host(server: str, app: str, models: Path, workers: int, prefix: str = "/models") -> Host:
    """The host `app` in a server that is not ours."""
    command = [part.format(app=app) for part in COMMANDS[server]]
    return Host(models, workers, "-m", *command, prefix=prefix)


def pids_below(pid: int) -> list[int]:
    """Processes that this one has started, and those that they have."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *pids_below(child)]
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
