"""Whoever serves the models of the contract: the server itself, with models here, in workers, behind front ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.serving import Running, write_model

MODELS = {
    "echo": "Echo",
    "slow": "Slow",
    "streaming": "Streaming",
    "spinning": "Spinning",
    "failing": "Failing",
    "both": "Both",
    "collecting": "Collecting",
}


class Host(Protocol):
    """A process that serves, and what its models note."""

    url: str
    grpc: str

    def noted(self, line: str) -> bool: ...

    def begin_stop(self) -> None: ...

    def stop(self) -> int: ...


def folder_of(root: Path, **settings: object) -> Path:
    folder = root / "models"
    for name, implementation in MODELS.items():
        write_model(folder, name, f"faulty_models.{implementation}", name=name)
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def _direct(root: Path, **settings: object) -> Host:
    return Running(folder_of(root, **settings))


HOSTS: dict[str, Callable[[Path], Host]] = {
    "direct-in-process": _direct,
    "direct-workers": lambda root: _direct(root, parallel_workers=2),
    "direct-frontends": lambda root: _direct(root, frontends=2),
}
