"""Exit of a server process, which does not wait for threads of model code."""

import atexit
import logging
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from ..telemetry.background import finish
from ..telemetry.output import finish_output

EXIT_SECONDS = 2.0
"""The maximum total time for functions registered with `atexit`, in seconds."""

logger = logging.getLogger("inferstream.server")


def end(code: int = 0, seconds: float = EXIT_SECONDS) -> NoReturn:
    """Run functions registered with `atexit` for up to `seconds`, flush all output, and exit this process."""

    def give_up() -> None:
        logger.error("stopping: functions registered with atexit took longer than %.1f s", seconds)
        _flush()
        os._exit(code)

    late = threading.Timer(seconds, give_up)
    late.daemon = True
    late.start()
    try:
        atexit._run_exitfuncs()
        late.cancel()
        _flush()
    finally:
        os._exit(code)


def _flush() -> None:
    finish()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # model code may have closed it
            stream.flush()
    finish_output()
