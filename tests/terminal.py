"""A server in a terminal of its own, as a person would start it."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path

from tests.serving import SERVER, eventually

COLOURS = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")


class Terminal:
    """Runs a command in a pseudo-terminal of 120 columns, and reads all that it shows."""

    def __init__(self, *arguments: str, cwd: Path, **environment: str) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        variables = {**os.environ, "TERM": "xterm-256color", **environment}
        self._command = [*SERVER, *arguments]
        self.process = subprocess.Popen(
            self._command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=variables,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._descriptor = ours
        self._read = bytearray()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except OSError:  # what reading from a terminal without a process gives on Linux
                return
            if not data:
                return
            self._read += data

    @property
    def raw(self) -> str:
        return self._read.decode(errors="replace")

    @property
    def text(self) -> str:
        """All that was shown, without colours and without what has been erased since."""
        lines = COLOURS.sub("", self.raw.replace("\r\x1b[K", "\x00")).replace("\r\n", "\n").split("\n")
        return "\n".join(line.rpartition("\x00")[2].rpartition("\r")[2] for line in lines)

    def shows(self, text: str, seconds: float = 40) -> str:
        eventually(lambda: text in self.text or self.process.poll() is not None, seconds)
        assert text in self.text, self.text
        return self.text

    def started(self) -> "Terminal":
        """Wait until the server has said how to stop it."""
        self.shows("Ctrl+C stops the server")
        return self

    @property
    def url(self) -> str:
        found = re.search(r"^page +(\S+)/$", self.text, re.M)
        assert found is not None, self.text
        return found[1]

    def interrupt(self) -> int:
        """Press Ctrl+C, and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(20)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(5)
        self._reader.join(5)
        os.close(self._descriptor)
        return code


def in_terminal(target: Path, *flags: str, **environment: str) -> Terminal:
    """`server start` of a target, at any free ports."""
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    return Terminal("start", str(target), *ports, *flags, cwd=target.parent, **environment)
