"""Lets hostile clients of HTTP/2 flood the gRPC port, and counts what each costs the server and its other clients.

A flood connects again whenever the server ends its connection. Beside it a client of grpcio calls all the time, in a
process of its own, so that it waits for the server and not for the flood.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests import floods
from tests.floods import CALM, CANCEL, FLOODS, PROTOCOL_ERROR, Flood, Neighbour, Peer
from tests.serving import Running, write_model

MODELS = {"echo": "Echo", "slow": "Slow", "streaming": "Streaming"}
SETTINGS = {
    "header_timeout": 2,
    "stream_stall_timeout": 2,
    "max_connections": 12_000,
    "max_body_bytes": 4 * 2**20,
}

CPU = 1.0
"""Seconds of processor time that one hostile connection may cost until it is ended."""

MEMORY = 128 * 2**20
"""Bytes by which the server may grow in one flood."""

IDLE_BYTES = 32 * 1024
"""Bytes of memory that an idle connection may cost."""

SLOWEST = 2.0
"""Seconds within which 99 of 100 calls of the other client end, on a machine that the flood shares."""


class Beside:
    """The process of the other client, and what its calls took."""

    def __init__(self, target: str) -> None:
        command = [sys.executable, "-m", "scripts.floods", "--beside", target]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def report(self) -> dict:
        """Its calls since the last report, the one in progress included."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def beside(target: str) -> None:
    """The other client: report for each line of the input."""
    while True:
        with Neighbour(target) as neighbour:
            if not sys.stdin.readline():
                return
        print(json.dumps({"took": neighbour.took, "failures": neighbour.failures}), flush=True)


class Report:
    """One line for each flood, and whether all kept within their bounds."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self.beside = Beside(server.grpc)
        self.beside.report()
        self.failed: list[str] = []
        print(f"{'flood':46} connections  MB in  CPU s  CPU/conn.  MB more  p99 beside  ended by")

    def measure(
        self, name: str, flood: Callable[[], tuple[int, int, Counter[str]]], ends: str | None
    ) -> None:
        """Run a flood that returns its connections, its bytes and how they ended."""
        pid = self._server.process.pid
        spent, resident = floods.cpu(pid), self._server.rss()
        connections, sent, ended = flood()
        others = self.beside.report()
        spent, grown = floods.cpu(pid) - spent, self._server.rss() - resident
        p99 = sorted(others["took"])[-1 - len(others["took"]) // 100]
        each = spent / connections
        print(
            f"{name:46} {connections:11} {sent / 1e6:6.1f} {spent:6.2f} {each * 1e3:7.2f} ms {grown / 2**20:8.1f} "
            f"{p99 * 1e3:8.0f} ms  {', '.join(f'{how} ({many})' for how, many in ended.items())}",
            flush=True,
        )
        self._check(name, others["failures"] == [], f"calls beside it failed: {others['failures'][:1]}")
        self._check(name, p99 < SLOWEST, "calls beside it were slow")
        self._check(name, grown < MEMORY, "the server grew")
        if ends is not None:
            self._check(name, set(ended) == {ends}, f"it should end by {ends}")
        if ends == "ENHANCE_YOUR_CALM":
            self._check(name, each < CPU, "a connection cost too much")

    def _check(self, name: str, right: bool, otherwise: str) -> None:
        if not right:
            self.failed.append(f"{name}: {otherwise}")


def again_and_again(port: int, flood: Flood, seconds: float) -> tuple[int, int, Counter[str]]:
    """Flood, and connect again at each end, until the time is over and the last connection has ended."""
    until = time.monotonic() + seconds
    connections = sent = 0
    ended: Counter[str] = Counter()
    while (left := until - time.monotonic()) > 0:
        with Peer(port, flood.settings) as peer:
            if flood.ends is None:
                peer.pour(floods.joined(flood.pieces()), left, reading=flood.reading)
            else:
                peer.pour(floods.joined(flood.pieces()), 30, reading=flood.reading)
                peer.wait(lambda seen: seen.goaway, 10)
            connections += 1
            sent += peer.sent
            ended[how(peer)] += 1
    return connections, sent, ended


def how(peer: Peer) -> str:
    return "nothing" if peer.seen.goaway is None else named(peer.seen.goaway[0])


def named(code: int) -> str:
    return {CALM: "ENHANCE_YOUR_CALM", PROTOCOL_ERROR: "PROTOCOL_ERROR", CANCEL: "CANCEL"}.get(
        code, str(code)
    )


def stalled(port: int, streams: int) -> tuple[int, int, Counter[str]]:
    with floods.stalled(port, streams, 10) as peer:
        seen = peer.wait(lambda seen: seen.resets.total() >= streams, 30)
        return (
            1,
            peer.sent,
            Counter({f"RST_STREAM {named(code)}": many for code, many in seen.resets.items()}),
        )


def slow_prefaces(port: int) -> tuple[int, int, Counter[str]]:
    seen = floods.slow_preface(port, 0.5, 20)
    return 1, 24, Counter({"nothing" if seen.goaway is None else named(seen.goaway[0]): 1})


def idle(server: Running, many: int) -> tuple[int, int, Counter[str]]:
    """Hold the connections for some seconds. They cost memory, and no time."""
    before = server.rss()
    peers = floods.idle(server.grpc_port, many)
    try:
        for peer in peers:
            peer.wait(lambda seen: seen.frames[floods.SETTINGS] == 2, 30)
        grown, spent = server.rss() - before, floods.cpu(server.process.pid)
        time.sleep(5)
        spent = floods.cpu(server.process.pid) - spent
        ended = Counter({f"nothing, {grown / many / 1024:.1f} KB each, {spent / 5:.1%} of a core": many})
        assert grown / many < IDLE_BYTES, "an idle connection costs too much memory"
        return many, 0, ended
    finally:
        for peer in peers:
            peer.socket.close()


def once(seen: Callable[[], floods.Seen], times: int) -> tuple[int, int, Counter[str]]:
    ended: Counter[str] = Counter()
    for _ in range(times):
        refused = b"grpc-status\x018" in seen().headers
        ended["RESOURCE_EXHAUSTED" if refused else "nothing"] += 1
    return times, 0, ended


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5, help="of each flood")
    options.add_argument(
        "--idle", type=int, default=10_000, help="idle connections; each takes two descriptors"
    )
    options.add_argument("floods", nargs="*", help="only those whose names hold one of these")
    options.add_argument("--beside", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.beside:
        beside(given.beside)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder, "models")
        for name, implementation in MODELS.items():
            write_model(models, name, f"faulty_models.{implementation}", name=name)
        (models / "settings.json").write_text(json.dumps(SETTINGS))
        server = Running(models)
        try:
            report = Report(server)
            port = server.grpc_port
            special: dict[str, tuple[Callable[[], tuple[int, int, Counter[str]]], str | None]] = {
                "streams that are never read": (lambda: stalled(port, 1000), "RST_STREAM CANCEL"),
                "slow preface": (lambda: slow_prefaces(port), "PROTOCOL_ERROR"),
                f"{given.idle:,} idle connections": (lambda: idle(server, given.idle), None),
                "messages of 400 MB": (
                    lambda: once(lambda: floods.oversize(port, 400 * 2**20, 16 * 2**20), 10),
                    "RESOURCE_EXHAUSTED",
                ),
                **{
                    f"messages that inflate to 256 MB, {encoding}": (
                        lambda encoding=encoding: once(
                            lambda: floods.inflating(port, encoding.encode(), 256 * 2**20), 2
                        ),
                        "RESOURCE_EXHAUSTED",
                    )
                    for encoding in ("gzip", "deflate")
                },
            }
            for name, flood in FLOODS.items():
                if chosen(name, given.floods):
                    ends = None if flood.ends is None else named(flood.ends)
                    report.measure(
                        name, lambda flood=flood: again_and_again(port, flood, given.seconds), ends
                    )
            for name, (run, ends) in special.items():
                if chosen(name, given.floods):
                    report.measure(name, run, ends)
            report.beside.end()
        finally:
            print("the server ended with", server.stop(40))
    for line in report.failed:
        print("FAILED", line)
    return 1 if report.failed else 0


def chosen(name: str, parts: list[str]) -> bool:
    return not parts or any(part in name for part in parts)


if __name__ == "__main__":
    sys.exit(main())
