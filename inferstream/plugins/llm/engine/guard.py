"""Runs a command until it exits or standard input ends, then stops its whole process group.

The server holds the other end of standard input, so the command never outlives it, however the server ends.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

GRACE_SECONDS = 10.0
"""Seconds from SIGTERM to SIGKILL."""


def main() -> None:
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def signal_group(number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(command.pid, number)

    def watch() -> None:
        os.read(0, 1)
        signal_group(signal.SIGTERM)
        threading.Timer(GRACE_SECONDS, signal_group, [signal.SIGKILL]).start()

    threading.Thread(target=watch, daemon=True).start()
    code = command.wait()
    signal_group(signal.SIGKILL)  # what it left behind
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
