"""What a test needs to know of the front ends of one server."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.serving import Running

MANY = 24
"""Connections of which the chance that one of two front ends gets none is less than one in eight million."""


def front_ends(server: Running) -> list[int]:
    """Process ids of the front ends after the first."""
    return [pid for pid in server.workers() if "frontends.front_end" in _command(pid)]


def workers(server: Running) -> list[int]:
    """Process ids of the workers."""
    return [pid for pid in server.workers() if "frontends.front_end" not in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def connections(pid: int, port: int) -> int:
    """How many clients of this port a process serves."""
    established = re.compile(rf"^ *\d+: \S+:{port:04X} \S+ 01 (?:\S+ +){{5}}(\d+)", re.M)
    lines = "".join(Path("/proc/net", name).read_text() for name in ("tcp", "tcp6"))
    sockets = {f"socket:[{inode}]" for inode in established.findall(lines)}
    found = 0
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(f"/proc/{pid}/fd/{descriptor}") in sockets
        except OSError:  # closed meanwhile
            continue
    return found


def spread(server: Running, port: int) -> list[int]:
    """The clients of a port in each front end."""
    return [connections(pid, port) for pid in (server.process.pid, *front_ends(server))]


@contextmanager
def clients(server: Running, count: int = MANY) -> Iterator[list[httpx.Client]]:
    """Clients with a connection of their own each, which both front ends serve a part of."""
    with ExitStack() as stack:
        opened = [stack.enter_context(httpx.Client(base_url=server.url, timeout=20)) for _ in range(count)]
        for client in opened:
            client.get("/v2/health/live").raise_for_status()
        assert all(spread(server, server.http_port))
        yield opened


def two(folder: Path, **settings: object) -> Path:
    """The folder, to be served by two front ends."""
    (folder / "settings.json").write_text(json.dumps({"frontends": 2, **settings}))
    return folder
