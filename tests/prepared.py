"""Starts programs as forks of an interpreter that has imported what they need.

Four fifths of a server's start are imports, and the tests start servers by the thousand. A fork has the arguments,
the environment, the folder and the output of its own, and from there on it runs `python -m inferstream` from its first
line to the interpreter's end.
"""

import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

READ_AT_START = ("PYTHON", "LD_", "OMP_", "MALLOC_", "TZ", "LC_", "LANG")
"""Beginnings of variables that the interpreter and its libraries read before the program."""

LARGEST = 1 << 18
"""Most bytes of a request: arguments and the environment."""


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a fork cannot change."""
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


class Interpreter:
    """A process of `python` that has imported `modules` and forks, until `close`."""

    def __init__(self, python: str, modules: Sequence[str]) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            command = [python, __file__, str(its.fileno()), *modules]
            self._process = subprocess.Popen(command, pass_fds=[its.fileno()])
        self._channel = ours
        self._environment = read_at_start(os.environ)
        assert ours.recv(LARGEST) == b"ready"

    def close(self) -> None:
        self._channel.close()
        self._process.wait()

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork would be what a new interpreter is in this environment."""
        return read_at_start(environment) == self._environment

    def start(
        self, module: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: int
    ) -> "Process":
        """Run a module in a fork, in `folder`, with the descriptor `output` as its output and its errors."""
        request = {
            "module": module,
            "arguments": arguments,
            "folder": str(folder),
            "environment": {**environment},
        }
        socket.send_fds(self._channel, [json.dumps(request).encode()], [output])
        return Process(self, json.loads(self._channel.recv(LARGEST)))

    def status_of(self, pid: int) -> int | None:
        """The exit status of a fork, in the form of os.waitpid; None while it runs."""
        self._channel.send(json.dumps({"ended": pid}).encode())
        status: int | None = json.loads(self._channel.recv(LARGEST))
        return status


class Process:
    """A fork, with the methods of `subprocess.Popen`."""

    def __init__(self, parent: Interpreter, pid: int) -> None:
        self._parent = parent
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and (status := self._parent.status_of(self.pid)) is not None:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                ended, _, _ = select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
            if not ended:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.poll()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _answer(channel: socket.socket) -> dict | None:
    """Answer requests: returns, in a fork, what it has to run, and None in the parent when there are no more."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, LARGEST, 1)
        if not message:
            return None
        request = json.loads(message)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            channel.send(json.dumps(status if pid else None).encode())
            continue
        [output] = descriptors
        pid = os.fork()
        if pid == 0:
            for stream in (1, 2):
                os.dup2(output, stream)
            os.close(output)
            return request
        os.close(output)
        channel.send(json.dumps(pid).encode())


def main(descriptor: str, *modules: str) -> None:
    with socket.socket(fileno=int(descriptor)) as channel:
        sys.path[0] = ""  # the folder of this file, where modules of tests are
        for module in modules:
            with contextlib.suppress(ImportError):  # names that only another module can import
                importlib.import_module(module)
        channel.send(b"ready")
        request = _answer(channel)
    if request is not None:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[0] = request["folder"]
        sys.argv[1:] = request["arguments"]
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
