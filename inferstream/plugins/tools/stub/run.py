"""The implementation of `server stub`: generates a typed client for an app."""

import sys
from pathlib import Path

from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import find_target, report_errors

from .source import generate_stub


@report_errors
def run(target: str, output: Path | None) -> int:
    """Write the stub to a file or to stdout. Returns the exit code."""
    location = find_target(target)
    if location.code is None:
        raise InvalidSettings(f"{target} is a folder of models; a stub is of an app (app.py or module:app)")
    source = generate_stub(*location.load_app())
    if output is None:
        sys.stdout.write(source)
    else:
        output.write_text(source)
    return 0
