"""Converts lines of standard output and standard error to JSON objects, in a separate process.

C code and subprocesses of models bypass the loggers, and a crash writes its last messages there. A thread
would not work, because it cannot run while C code holds the GIL. The process runs only this file, without
importing the package.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime

MAX_LINE_LENGTH = 2**20
"""The maximum length of a line in bytes. Longer lines are split."""

END = b"\0end\n"
"""The line that stops the process, even if other processes still have the pipe open."""

LAST_SECONDS = 2.0
"""The time in seconds to write the last lines when the server exits."""

STREAMS = {"stdout": 1, "stderr": 2}


_running: "list[subprocess.Popen[bytes]]" = []


def wrap_output() -> None:
    """Redirect the output of this process and its children to the wrapper process.

    Terminals are not redirected.
    """
    pipes = {name: os.pipe() for name, target in STREAMS.items() if not os.isatty(target)}
    command = [sys.executable, "-I", "-S", __file__, *(f"{name}:{read}" for name, (read, _) in pipes.items())]
    sources = [read for read, _ in pipes.values()]
    wrapper = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=sources, start_new_session=True)
    _running.append(wrapper)
    for name, (read, write) in pipes.items():
        os.dup2(write, STREAMS[name])
        os.close(read)
        os.close(write)


def finish_output() -> None:
    """Wait until the wrapper process, if any, has written the last lines."""
    for wrapper in _running:
        for target in STREAMS.values():
            if not os.isatty(target):
                with suppress(OSError):
                    os.write(target, END)
        with suppress(subprocess.TimeoutExpired):
            wrapper.wait(LAST_SECONDS)


def wrap_in_object(line: bytes, name: str) -> bytes:
    """Return a line unchanged if it is a JSON object, otherwise wrapped in one. Blank lines are removed."""
    if line.startswith(b"{") and line.endswith(b"}\n"):
        with suppress(ValueError):
            json.loads(line)
            return line
    text = line.decode("utf-8", "replace").rstrip()
    if not text:
        return b""
    usual = "INFO" if name == "stdout" else "WARNING"
    fields = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "name": name,
        "level": "ERROR" if text.startswith("error: ") else usual,
        "message": text.rsplit("\r", 1)[-1].removeprefix("error: "),  # progress bars overwrite themselves
    }
    return json.dumps(fields).encode() + b"\n"


def _convert(source: int, name: str) -> None:
    with open(source, "rb") as lines:
        while (line := lines.readline(MAX_LINE_LENGTH)) and line != END:
            data = wrap_in_object(line, name)
            with suppress(OSError):  # the reader is gone, and writers must not block
                while data:
                    data = data[os.write(STREAMS[name], data) :]


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it must exit after the server, to write its last lines
    for stream in sys.argv[1:]:
        name, _, source = stream.partition(":")
        threading.Thread(target=_convert, args=(int(source), name)).start()


if __name__ == "__main__":
    _main()
