"""Starts a process and reports its exit."""

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
"""The time for a process to exit after its work is done, or to be reaped after it is killed, in seconds."""


@dataclass(frozen=True)
class Program:
    """The script of a process, its interpreter, and environment variables that differ from the server's."""

    script: str
    python: str
    variables: Mapping[str, str]
    module: str = "inferstream.server.worker"
    """The module whose `main` the script runs."""


class Child:
    """A process in its own process group, with our end of the socket to it.

    Calls `ended` once after the process has exited.
    """

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
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._end)

        threading.Thread(target=wait, name=f"worker-{self.pid}", daemon=True).start()

    def _end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # its children, before the process group id can be reused
        self._process.wait()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        os.close(self._lifeline)
        self._reap_group()
        self._ended()

    def _reap_group(self) -> None:
        """Reap orphans of the worker that we inherited (as process 1)."""
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
            self._loop.call_later(REAPED, self._reap_group)  # some have not exited yet

    def kill(self, why: str = "") -> None:
        """Kill the process. `why` replaces the description in `how`."""
        self._why = why or self._why  # the link closes, which calls `kill` again
        with suppress(ProcessLookupError):
            self._process.kill()

    @property
    def halted(self) -> bool:
        """Whether a signal has stopped the process (SIGSTOP).

        This queries the kernel instead of the process, whose code may be holding the GIL or waiting for a
        disk.
        """
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False  # it has exited

    async def wait_for_end(self, ended: asyncio.Event, seconds: float, late: Callable[[], None]) -> bool:
        """Wait for `ended` and return True.

        After `seconds`, call `late`, kill the process and return False.
        """
        try:
            async with asyncio.timeout(seconds):
                await ended.wait()
                return True
        except TimeoutError:
            late()
        finally:
            self.kill()  # also if the caller is cancelled
        with suppress(TimeoutError):
            async with asyncio.timeout(REAPED):
                await ended.wait()
        return False

    @property
    def killed_by_kernel(self) -> bool:
        """Whether the process died of a SIGKILL that the server did not send, such as from the OOM killer."""
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
