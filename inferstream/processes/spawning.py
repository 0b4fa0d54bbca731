"""Starts a process and reports its end."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])

REAPED = 0.25
"""Seconds a process may take to end when its work is over, and to be gone once it is killed."""


@dataclass(frozen=True)
class Program:
    """The script of a process, its Python, and the variables that differ from the server's."""

    script: str
    python: str
    variables: Mapping[str, str]
    module: str = "inferstream.server.worker"
    """The module with the `main` that the script runs."""


class Child:
    """A process in its own group, with our end of the socket to it. Calls `ended` once when the process has ended."""

    def __init__(self, program: Program, memory: Sequence[int], ended: Callable[[], None]) -> None:
        with ExitStack() as undo, ExitStack() as theirs:
            self.socket, end = socket.socketpair()
            undo.callback(self.socket.close)
            theirs.callback(end.close)
            lifeline, self._lifeline = os.pipe()
            undo.callback(os.close, self._lifeline)
            theirs.callback(os.close, lifeline)
            shared = (end.fileno(), lifeline, *memory)
            command = [program.python, "-P", program.script, program.module, PACKAGE, json.dumps(sys.path)]
            command += map(str, (os.getpid(), *shared))
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=shared,
                env={**os.environ, **program.variables},
                start_new_session=True,
            )
            undo.callback(self._process.wait)
            undo.callback(self._process.kill)
            self.pid = self._process.pid
            self._loop = asyncio.get_running_loop()
            self._ended = ended
            self._pidfd: int | None = None
            self._why = ""
            self._watch()
            undo.pop_all()

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self._end)
            return

        def wait() -> None:
            self._process.wait()
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._end)

        threading.Thread(target=wait, name=f"worker-{self.pid}", daemon=True).start()

    def _end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it started and left, before its number can be reused
        self._process.wait()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        os.close(self._lifeline)
        self._reap_group()
        self._ended()

    def _reap_group(self) -> None:
        """Reap what the worker left and we inherited (as process 1)."""
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
            self._loop.call_later(REAPED, self._reap_group)  # some of it has not ended yet

    def kill(self, why: str = "") -> None:
        """Kill the process. `why` says in `how` what came before."""
        self._why = why or self._why  # its link closes, which kills again
        with suppress(ProcessLookupError):
            self._process.kill()

    @property
    def halted(self) -> bool:
        """Whether a signal has stopped the process (SIGSTOP).

        Asked of the kernel and not of the process, whose code may hold the interpreter lock, or wait for a disk.
        """
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False  # it has ended

    async def stopped(self, ended: asyncio.Event, seconds: float, late: Callable[[], None]) -> bool:
        """Wait for `ended`. After `seconds`, call `late` and kill the process; False when that happened."""
        try:
            async with asyncio.timeout(seconds):
                await ended.wait()
                return True
        except TimeoutError:
            late()
        finally:
            self.kill()  # also when the caller is cancelled
        with suppress(TimeoutError):
            async with asyncio.timeout(REAPED):
                await ended.wait()
        return False

    @property
    def killed_by_kernel(self) -> bool:
        """Whether SIGKILL has ended it, for no reason of ours."""
        return self._process.returncode == -signal.SIGKILL and not self._why

    @property
    def how(self) -> str:
        code = self._process.returncode
        if code is None:
            return "still runs"
        if self._why:
            return self._why
        if code < 0:
            try:
                return f"ended by {signal.Signals(-code).name}"
            except ValueError:
                return f"ended by signal {-code}"
        return f"exited with status {code}"
