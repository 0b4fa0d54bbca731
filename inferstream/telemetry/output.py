"""Makes a JSON object of each line on standard output and standard error that is none, in a process of its own.

C code and programs that models start write past the loggers, and a crash leaves its last words there. A thread could
not read them while C code holds the interpreter lock. The process runs this file alone, without the package.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime

LONGEST_LINE = 2**20
"""Bytes of a line. A longer one becomes several."""

END = b"\0end\n"
"""The line after which the process ends, although others still have the pipe open."""

LAST_SECONDS = 2.0
"""Seconds that the last lines have at the end of the server."""

STREAMS = {"stdout": 1, "stderr": 2}


_running: "list[subprocess.Popen[bytes]]" = []


def wrap_output() -> None:
    """Send this process's output, and that of its children, through the wrapper; a terminal stays as it is."""
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
    """Wait until the wrapper, if there is one, has written the last lines."""
    for wrapper in _running:
        for target in STREAMS.values():
            if not os.isatty(target):
                with suppress(OSError):
                    os.write(target, END)
        with suppress(subprocess.TimeoutExpired):
            wrapper.wait(LAST_SECONDS)


def as_object(line: bytes, name: str) -> bytes:
    """The line if it is a JSON object, else an object with its text; nothing for a blank line."""
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
        "message": text.rsplit("\r", 1)[-1].removeprefix("error: "),  # progress bars write over themselves
    }
    return json.dumps(fields).encode() + b"\n"


def _convert(source: int, name: str) -> None:
    with open(source, "rb") as lines:
        while (line := lines.readline(LONGEST_LINE)) and line != END:
            data = as_object(line, name)
            with suppress(OSError):  # nobody reads any more; whoever writes here must not wait
                while data:
                    data = data[os.write(STREAMS[name], data) :]


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends after the server, whose last lines it has
    for stream in sys.argv[1:]:
        name, _, source = stream.partition(":")
        threading.Thread(target=_convert, args=(int(source), name)).start()


if __name__ == "__main__":
    _main()
