"""`server stub`: writes a typed client of an app."""

import sys
from pathlib import Path

from inferstream.ext.hosting import find_target, report_errors

from ...errors import InvalidSettings
from ...imports.folders import share_folders
from ...repository.apps import load_app
from ...repository.target import in_package
from .source import stub_source


@report_errors
def run(target: str, output: Path | None) -> int:
    """Write the stub to a file, or print it. Returns the exit code."""
    folder, path = find_target(target)
    if path is None:
        raise InvalidSettings(f"{target} is a folder of models; a stub is of an app (app.py or module:app)")
    folder = folder.resolve()
    share_folders([folder])
    path, folder = in_package(path, folder)
    module = path.partition(":")[0].rpartition(".")[2]
    source = stub_source(load_app(path, str(folder / f"{module}.py")), path)
    if output is None:
        sys.stdout.write(source)
    else:
        output.write_text(source)
    return 0
