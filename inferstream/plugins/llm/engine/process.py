"""`EngineProcess`: the process of an engine that the server starts, restarts and stops."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

from inferstream.ext.telemetry import get_logger

from . import guard

logger = get_logger("runtimes")

OURS = ("INFERSTREAM_", "MLSERVER_", "PYTHONPATH", "PYTHONHOME")
"""Prefixes of environment variables that are not passed on. Ours may hold secrets."""


class EngineProcess:
    """A command that runs under a guard, which stops it when this process exits.

    Raises FileNotFoundError if there is no such program.
    """

    def __init__(
        self, model: str, target: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._model, self._target = model, target
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self._environment = {**inherited, **environment}
        program = shutil.which(command[0], path=self._environment.get("PATH"))
        if program is None:
            raise FileNotFoundError(command[0])
        self._command = [program, *command[1:]]
        self._guard: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    def claim(self) -> bool:
        """Return whether this object may run the command. At most one may at a time for each target.

        Several workers load the model, and the next version loads before this one is unloaded.
        """
        if self._lock is None:
            digest = sha256(self._target.encode()).hexdigest()[:24]
            path = Path(gettempdir(), f"inferstream-engine-{os.getuid()}-{digest}")
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return False
            self._lock = lock
        return True

    def start(self) -> None:
        """Start the command. Its output goes to standard error of the server."""
        self._guard = subprocess.Popen(
            [sys.executable, "-I", guard.__file__, *self._command],
            stdin=subprocess.PIPE,
            stdout=2,
            env=self._environment,
            start_new_session=True,
        )
        logger.info("model %s: started its engine, process %d", self._model, self._guard.pid)

    def poll(self) -> int | None:
        """Return the exit code of the command, or None while it runs."""
        return None if self._guard is None else self._guard.poll()

    async def stop(self) -> None:
        """Stop the command and wait until it has exited."""
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            await asyncio.to_thread(self._guard.wait)
            self._guard = None

    def release(self) -> None:
        """Let another process run the command."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
