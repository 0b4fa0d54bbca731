"""What serves the models of the contract: the server, or programs in which the application is mounted."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.mounted import HOST, host
from tests.mounted import Host as Program
from tests.ray.host import PYTHON, RayHost
from tests.serving import Running, write_model
from tests.texts import SOUNDS, write_text_model

MODELS = {
    "echo": "Echo",
    "slow": "Slow",
    "streaming": "Streaming",
    "spinning": "Spinning",
    "failing": "Failing",
    "both": "Both",
    "collecting": "Collecting",
}

TEXT_MODELS = ("words", "blocking-words", "tokens", "steps", "whole", *SOUNDS)


class Host(Protocol):
    """A process that serves, and what its models note."""

    url: str
    grpc: str
    closes_sockets: bool
    """Whether it closes WebSockets at once when it stops, as uvicorn does."""
    http2: bool
    """Whether REST comes over HTTP/2."""
    holds_back: bool
    """Whether a client that does not read holds its model back; Ray takes what a model makes without a limit."""
    sees_leaving: bool
    """Whether each client that leaves ends its model; Serve's proxy may miss one of gRPC while it sends to it."""

    def noted(self, line: str) -> bool: ...

    def begin_stop(self) -> None: ...

    def stop(self) -> int: ...


def folder_of(root: Path, **settings: object) -> Path:
    folder = root / "models"
    for name, implementation in MODELS.items():
        write_model(folder, name, f"faulty_models.{implementation}", name=name)
    for name in TEXT_MODELS:
        write_text_model(folder, name)
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


class Direct(Running):
    """`server start`."""

    closes_sockets = False
    http2 = False
    holds_back = True
    sees_leaving = True


class OnePort(Direct):
    """One port for all, where REST's clients begin with HTTP/2, as gRPC's do."""

    http2 = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--one-port")


def _direct(root: Path, **settings: object) -> Host:
    return Direct(folder_of(root, **settings))


def _one_port(root: Path, **settings: object) -> Host:
    return OnePort(folder_of(root, **settings))


class Mounted:
    """The application in two programs of somebody else's: mounted in FastAPI under uvicorn, and in a gRPC server."""

    closes_sockets = True
    http2 = False
    holds_back = True
    sees_leaving = True

    def __init__(self, root: Path, workers: int) -> None:
        self._programs: list[Program] = []
        try:
            self._programs.append(host("uvicorn", "app", self._models(root / "http"), workers))
            self._programs.append(Program(self._models(root / "rpc"), workers, "host.py", "started"))
        except BaseException:
            self.stop()
            raise
        self.url, self.grpc = self._programs[0].url, self._programs[1].grpc

    @staticmethod
    def _models(root: Path) -> Path:
        folder = folder_of(root)
        (root / "host.py").write_text(HOST)
        return folder

    def noted(self, line: str) -> bool:
        return any(program.noted(line) for program in self._programs)

    def begin_stop(self) -> None:
        for program in self._programs:
            program.begin_stop()

    def stop(self) -> int:
        """Zero where each program ended in good order; uvicorn passes on the signal that ended it."""
        statuses = [program.stop() for program in self._programs]
        return next((status for status in statuses if status not in (0, -signal.SIGTERM)), 0)


HOSTS: dict[str, Callable[[Path], Host]] = {
    "direct-in-process": _direct,
    "direct-workers": lambda root: _direct(root, parallel_workers=2),
    "direct-frontends": lambda root: _direct(root, frontends=2),
    "one-port-in-process": _one_port,
    "one-port-frontends": lambda root: _one_port(root, frontends=2),
    "mounted-in-process": lambda root: Mounted(root, 0),
    "mounted-workers": lambda root: Mounted(root, 2),
}
if PYTHON is not None:
    HOSTS["ray-proxy"] = lambda root: RayHost(folder_of(root), root)
    HOSTS["ray-haproxy"] = lambda root: RayHost(folder_of(root), root, haproxy=True)
