"""Asks a server under load how it is, and times nothing else: `python scripts/probe.py PORT WAIT SECONDS MODEL`.

A process of its own, synchronous, on plain sockets, so that what it measures is the server and not its own
event loop. Prints JSON: seconds of each answer by what was asked and answered, and how late it woke itself.
"""

import json
import os
import socket
import sys
import time
from contextlib import suppress

EVERY = 0.02
"""Seconds between two questions."""

BODY = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}'
SOON = 0.1
"""Seconds the model has for a question that is not refused: the probe waits for it, and asks nobody else."""


class Line:
    """One connection, one question at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, question: bytes) -> tuple[int, float]:
        """The status, and the seconds until the answer was there as a whole."""
        started = time.perf_counter()
        self._socket.sendall(question)
        found = b""
        while not _whole(found):
            received = self._socket.recv(65536)
            if not received:
                raise SystemExit("the server has closed the connection")
            found += received
        return int(found[9:12]), time.perf_counter() - started


def _whole(found: bytes) -> bool:
    head, ended, body = found.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return bool(ended) and len(body) >= int(length)


def main(port: int, wait: float, seconds: float, model: str) -> None:
    with suppress(OSError):
        os.nice(-10)  # ours to give away, not to take, unless root
    health = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    infer = (
        b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\n"
        b"X-Request-Timeout: %g\r\nContent-Length: %d\r\n\r\n%s"
    )
    questions = {"health": health, "infer": infer % (model.encode(), SOON, len(BODY), BODY)}
    lines = {name: Line(port) for name in questions}
    found: dict[str, list[float]] = {"late": []}
    due = time.perf_counter() + wait
    until = due + seconds
    while due < until:
        for name, question in questions.items():
            time.sleep(max(due - time.perf_counter(), 0))
            found["late"].append(time.perf_counter() - due)
            status, took = lines[name].ask(question)
            found.setdefault(f"{name} {status}", []).append(took)
            due = max(due + EVERY / 2, time.perf_counter())
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
