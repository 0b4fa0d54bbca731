"""Starts the real server as a process and talks to it as a stranger would."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx

from tests.prepared import Interpreter, Process

SERVER = [sys.executable, "-m", "inferstream"]
HERE = Path(__file__).parent


class Running:
    """A server process with its ports, log and model log.

    It serves `folder`, or the `target` in the folder above it; `embedded` in a program with a server of grpcio;
    `under` a command that runs it. It is a fork of an interpreter with its modules unless `fresh`, or the way to start
    it, asks for a new one.
    """

    _stopping = False

    def __init__(
        self,
        folder: Path,
        *flags: str,
        wait: bool = True,
        within: float = 30,
        demo: bool = False,
        embedded: bool = False,
        target: str | None = None,
        under: Sequence[str] = (),
        fresh: bool = False,
        **environment: str,
    ) -> None:
        self.folder = folder
        self.output = folder.parent / f"{folder.name}.output"
        self.log = folder.parent / f"{folder.name}.log"
        self.log.touch()
        ports = [part for name in ("http", "grpc", "metrics") for part in (f"--{name}-port", "0")]
        arguments = [*(["demo"] if demo else ["start", target or str(folder)]), *ports, *flags]
        variables = {**os.environ, "TEST_LOG": str(self.log), **environment}
        interpreter = None if embedded or under or fresh else _interpreter()
        self.process: subprocess.Popen[bytes] | Process
        with self.output.open("w") as output:
            if interpreter is not None and interpreter.suits(variables):
                self.process = interpreter.start(
                    "inferstream", arguments, folder.parent, variables, output.fileno()
                )
            else:
                command = [sys.executable, str(HERE / "embedded.py"), str(folder)]
                self.process = subprocess.Popen(
                    [*under, *(command if embedded else [*SERVER, *arguments])],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=folder.parent,
                    env=variables,
                )
        if wait:
            try:
                eventually(lambda: self.listens() or self.process.poll() is not None, within)
                assert self.process.poll() is None, self.text()
                self.read_ports()
            except BaseException:
                self.process.kill()
                raise

    def listens(self) -> bool:
        """Whether the banner is there, with its last line whole."""
        return re.search(r"^gRPC  .*:\d+\n|^.*\"addresses\": .*\n", self.text(), re.M) is not None

    def read_ports(self) -> None:
        lines = [json.loads(line) for line in self.text().splitlines() if '"addresses": ' in line]
        addresses = [f"{name} {address}" for line in lines for name, address in line["addresses"].items()]
        text = "\n".join([self.text(), *addresses])
        found = dict(re.findall(r"^(REST|gRPC|metrics) +\S*?:(?://)?\S*?(\d+)(?:/\S*)?$", text, re.M))
        self.http_port, self.grpc_port = int(found["REST"]), int(found["gRPC"])
        self.metrics_port = int(found.get("metrics", 0))
        self.url = f"http://127.0.0.1:{self.http_port}"
        self.grpc = f"127.0.0.1:{self.grpc_port}"

    def text(self) -> str:
        return self.output.read_text()

    def noted(self, line: str) -> bool:
        """Whether a model has left this line."""
        return any(found.startswith(line) for found in self.log.read_text().splitlines())

    def infer(self, model: str, request: dict, action: str = "infer", **options) -> httpx.Response:
        return httpx.post(f"{self.url}/v2/models/{model}/{action}", json=request, timeout=20, **options)

    def metric(self, name: str, **labels: str) -> float:
        return metric(httpx.get(f"{self.url}/metrics").text, name, **labels)

    def workers(self) -> list[int]:
        """Process ids of the workers."""
        pids = []
        for task in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            pids += [int(pid) for pid in task.read_text().split()]
        return sorted(pids)

    def rss(self) -> int:
        """Resident memory of the server and its workers in bytes."""
        statuses = [Path(f"/proc/{pid}/status").read_text() for pid in (self.process.pid, *self.workers())]
        return sum(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024 for status in statuses)

    def probe(self) -> None:
        """The server is alive, ready to be asked, and answers another model correctly."""
        assert httpx.get(f"{self.url}/v2/health/live", timeout=5).status_code == 200
        answered = self.infer("echo", fp32([1.0, 2.0]))
        assert answered.status_code == 200, answered.text
        assert answered.json()["outputs"][0]["data"] == [1.0, 2.0], answered.text
        assert self.process.poll() is None

    def begin_stop(self) -> None:
        """Let the server drain and end; `stop` waits for it."""
        self._stopping = True
        self.process.send_signal(signal.SIGTERM)

    def stop(self, timeout: float = 30) -> int:
        if self.process.poll() is None:
            if not self._stopping:
                self.begin_stop()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        return self.process.returncode


_interpreters: dict[str, Interpreter] = {}
"""What servers are forks of, by the Python that they run in."""


def _interpreter() -> Interpreter | None:
    """One that has imported what a server without models does. None if SERVER is another program."""
    python, *module = SERVER
    if module != ["-m", "inferstream"]:
        return None
    if python not in _interpreters:
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root) / "models"
            folder.mkdir()
            running = Running(folder, fresh=True, PYTHONPROFILEIMPORTTIME="1")
            running.stop()
            imported = re.findall(r"^import time: .*\| *([\w.]+)$", running.text(), re.M)
        _interpreters[python] = Interpreter(python, [name for name in imported if "__main__" not in name])
    return _interpreters[python]


def close_interpreters() -> None:
    """End what servers have been forks of."""
    while _interpreters:
        _interpreters.popitem()[1].close()


Key = TypeVar("Key")
Server = TypeVar("Server", bound=Running)


@contextmanager
def started_once(start: Callable[[Key], Server]) -> Iterator[Callable[[Key], Server]]:
    """A function that starts the server of a key when it is first called with it; all stop in the end."""
    servers: dict[Key, Server] = {}

    def server_of(key: Key) -> Server:
        if key not in servers:
            servers[key] = start(key)
        return servers[key]

    try:
        yield server_of
    finally:
        statuses = [server.stop() for server in servers.values()]
    assert not any(statuses), "\n".join(server.text() for server in servers.values())


def metric(page: str, name: str, **labels: str) -> float:
    """The value that a metrics page has for a meter, which is zero for those it does not have."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    for line in page.splitlines():
        if line.startswith((name + "{", name + " ")) and all(label in line for label in wanted):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def is_ready(url: str) -> bool:
    """Whether a server says 200. One that leaves may close a connection that it has just accepted."""
    try:
        return httpx.get(url, timeout=20).status_code == 200
    except httpx.TransportError:
        return False


def eventually(condition: Callable[[], object], seconds: float = 20) -> object:
    """Wait until `condition` holds; fail when it has not within `seconds`."""
    until = time.monotonic() + seconds
    while not (found := _holds(condition)):
        assert time.monotonic() < until, f"still not so after {seconds} s"
        time.sleep(0.01)
    return found


def _holds(condition: Callable[[], object]) -> object:
    try:
        return condition()
    except httpx.RemoteProtocolError:  # a server that leaves has closed the connection
        return None


def write_model(root: Path, at: str, implementation: str, code: str | None = None, **settings) -> Path:
    """A model folder; without `code` it holds the faulty models."""
    folder = root / at
    folder.mkdir(parents=True, exist_ok=True)
    if code is None:
        shutil.copy(HERE / "faulty_models.py", folder)
    else:
        (folder / f"{implementation.partition('.')[0]}.py").write_text(code)
    (folder / "model-settings.json").write_text(json.dumps({"implementation": implementation, **settings}))
    return folder


MODELS = {
    "echo": "Echo",
    "slow": "Slow",
    "blocking": "Blocking",
    "streaming": "Streaming",
    "spinning": "Spinning",
    "blocking-stream": "BlockingStream",
    "stubborn": "Stubborn",
    "failing": "Failing",
    "blocking-failing": "BlockingFailing",
    "mirror": "Mirror",
    "collecting": "Collecting",
    "both": "Both",
    "arrays": "Arrays",
    "bad-ending": "BadEnding",
    "headed": "Headed",
}


def write_all_models(root: Path) -> Path:
    for name, implementation in MODELS.items():
        write_model(root, name, f"faulty_models.{implementation}", name=name)
    tensors = [
        {"name": "a", "datatype": "INT32", "shape": [-1, 2]},
        {"name": "b", "datatype": "BYTES", "shape": [1], "parameters": {"optional": True}},
    ]
    write_model(root, "declared", "faulty_models.Declared", inputs=tensors, outputs=tensors)
    strict = {"input_validation": "strict"}
    write_model(root, "strict", "faulty_models.Declared", inputs=tensors, outputs=tensors, **strict)
    one = [{"name": "x", "datatype": "FP32", "shape": [1, -1]}]
    write_model(root, "one", "faulty_models.Declared", inputs=one, outputs=one)
    text = [{"name": "text", "datatype": "BYTES", "shape": [1]}]
    write_model(root, "one-text", "faulty_models.Declared", inputs=text, outputs=text, **strict)
    for mode in ("value", "exit", "none", "cancelled"):
        write_model(root, f"undescribed-{mode}", "faulty_models.Undescribed", parameters={"mode": mode})
    write_model(root, "names/with space ü", "faulty_models.Echo", name="names/with space ü")
    for version in ("1", "2", "10"):
        write_model(
            root,
            f"versions/{version}",
            "faulty_models.Both",
            name="versions",
            parameters={"version": version},
        )
    write_model(root, "limited", "faulty_models.Slow", max_concurrency=1, max_queue=1, request_timeout=5)
    write_model(root, "impatient", "faulty_models.Slow", request_timeout=0.3)
    write_model(root, "impatient-stream", "faulty_models.Streaming", request_timeout=0.3)
    return root


def tensor(name: str, datatype: str, data: list, shape: list[int] | None = None, **more) -> dict:
    return {
        "name": name,
        "datatype": datatype,
        "shape": [len(data)] if shape is None else shape,
        "data": data,
        **more,
    }


def fp32(data: list, **more) -> dict:
    return {"inputs": [tensor("x", "FP32", data)], **more}


def text(value: str = "hi", **more) -> dict:
    return {"inputs": [tensor("text", "BYTES", [value])], **more}


def two_free_ports() -> tuple[int, int]:
    """Ports for programs of others, which cannot say what they chose."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
