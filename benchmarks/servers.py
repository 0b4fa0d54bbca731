"""The servers that are compared: started, found, and looked at from outside."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MODELS = HERE / "models"
FUNCTIONS = HERE / "functions.py"
LITSERVE = HERE / ".litserve"
MLSERVER = HERE / ".mlserver"
"""Where MLServer is installed, if it is: an environment of its own, since it needs other versions."""


class Target(NamedTuple):
    name: str
    process: subprocess.Popen
    ports: dict[str, int]


def start_bare(cpus: set[int], *kinds: str) -> list[Target]:
    """The floors, one process for each kind of work: these, or all but FastAPI."""
    found = []
    for kind in kinds or ("rest", "grpc", "grpc-sync", "grpc-sync-600"):
        port = free_port()
        process = subprocess.Popen(
            bare_command(kind, port), cwd=HERE.parent, preexec_fn=lambda: os.sched_setaffinity(0, cpus)
        )
        found.append(Target("FastAPI" if kind == "fastapi" else "bare", process, {kind: port}))
    for target in found:
        wait_for(*target.ports.values())
    return found


def bare_command(kind: str, port: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.bare", kind, str(port)]


def start_ours(
    cpus: set[int],
    name: str,
    workers: int = 0,
    models: Path = MODELS,
    frontends: int = 1,
    one_port: bool = False,
    tree: Path = HERE.parent,
    quiet: bool = False,
    **variables: str,
) -> Target:
    """A server on these cores, started as a user would, from the sources in `tree`."""
    kinds = ("http", "metrics") if one_port else ("http", "grpc", "metrics")
    ports = [part for kind in kinds for part in (f"--{kind}-port", "0")] + ["--one-port"] * one_port
    ours = subprocess.Popen(
        [sys.executable, "-m", "inferstream", "start", str(models), *ports],
        cwd=tree,
        env={
            **os.environ,
            "PYTHONPATH": str(tree),
            "INFERSTREAM_PARALLEL_WORKERS": str(workers),
            "INFERSTREAM_FRONTENDS": str(frontends),
            **variables,
        },
        stdout=subprocess.DEVNULL if quiet else None,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    found: dict[str, int] = {}
    for line in ours.stderr:
        if match := re.match(r"(REST|gRPC) .*?:(\d+)(/docs)?$", line.strip()):
            found[match[1].lower()] = int(match[2])
        if "grpc" in found:
            break
    return Target(name, ours, found)


def start_functions(cpus: set[int]) -> Target:
    """A server of the app, whose ports have kinds of their own."""
    ours = start_ours(cpus, "inferstream", models=FUNCTIONS)
    return ours._replace(ports={"functions": ours.ports["rest"], "functions-grpc": ours.ports["grpc"]})


def start_mlserver(cpus: set[int], folder: Path, models: Path = MODELS) -> Target:
    """MLServer on the same models, of which only the name of the imported package differs."""
    for model in models.iterdir():
        copied = Path(shutil.copytree(model, folder / model.name))
        for code in copied.glob("*.py"):
            code.write_text(code.read_text().replace("from inferstream", "from mlserver"))
        settings = copied / "model-settings.json"
        text = settings.read_text()
        if '"name"' not in text:
            settings.write_text(text.replace("{", f'{{"name": "{model.name}", ', 1))
    ports = {"rest": free_port(), "grpc": free_port(), "metrics": free_port()}
    variables = {
        "MLSERVER_HTTP_PORT": str(ports["rest"]),
        "MLSERVER_GRPC_PORT": str(ports["grpc"]),
        "MLSERVER_METRICS_PORT": str(ports["metrics"]),
        "MLSERVER_PARALLEL_WORKERS": "0",  # as its documentation asks of whoever streams
        "MLSERVER_GZIP_ENABLED": "false",
        "MLSERVER_DEBUG": "false",
        "MLSERVER_GRPC_MAX_MESSAGE_LENGTH": str(2**28),
    }
    process = subprocess.Popen(
        [str(MLSERVER / "bin" / "mlserver"), "start", str(folder)],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    wait_for(ports["rest"], ports["grpc"])
    return Target("MLServer", process, ports)


def install_mlserver() -> None:
    """In an environment of its own, because it needs older versions than the server."""
    if (MLSERVER / "bin" / "mlserver").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(MLSERVER)], check=True)
    subprocess.run([str(MLSERVER / "bin" / "pip"), "install", "-q", "mlserver==1.7.1"], check=True)


def install_litserve() -> None:
    """In an environment of its own, as MLServer."""
    if not (LITSERVE / "bin" / "litserve").exists():
        subprocess.run([sys.executable, "-m", "venv", str(LITSERVE)], check=True)
        subprocess.run([str(LITSERVE / "bin" / "pip"), "install", "-q", "litserve==0.2.19"], check=True)


def start_litserve(cpus: set[int]) -> Target:
    """LitServe's OpenAI spec with a model of the same tokens, in its fastest configuration."""
    port = free_port()
    process = subprocess.Popen(
        [str(LITSERVE / "bin" / "python"), str(HERE / "litserve_tokens.py"), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        start_new_session=True,
    )
    wait_for(port)
    return Target("LitServe", process, {"chat": port})


def stop(targets: list[Target]) -> None:
    for target in targets:
        target.process.terminate()
    for target in targets:
        try:
            target.process.wait(10)
        except subprocess.TimeoutExpired:
            target.process.kill()
        if target.name == "LitServe":  # its workers outlive it
            with suppress(ProcessLookupError):
                os.killpg(target.process.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(*ports: int, seconds: float = 30) -> None:
    """Return when somebody listens on each of these ports."""
    until = time.monotonic() + seconds
    for port in ports:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, with threads that have ended.

    It is the clock that clock_getcpuclockid(3) names. /proc has the same in steps of 10 ms.
    """
    return time.clock_gettime(~pid << 3 | 2)


def tree_cpu(pid: int) -> float:
    """User and system time of a process and its children so far."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += map(int, task.read_text().split())
    return sum(map(cpu_seconds, (pid, *children)))


def memory(pid: int, field: str = "VmRSS") -> int:
    """Bytes of memory of a process: resident now (`VmRSS`), or at most since `forget_peak` (`VmHWM`)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", status)[1]) * 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
