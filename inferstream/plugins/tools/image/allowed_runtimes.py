"""Runtimes that an image trusts."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from inferstream.errors import InvalidSettings
from inferstream.ext.runtimes import TrustedRuntimes

RUNTIMES = "/opt/runtimes"
"""The folder of the code in `--runtime-path`. It is not the folder of the models, so uploads do not get there."""

TRUSTED = "/etc/mlserver/trusted-runtimes.json"

FILE = re.compile(r"\w[\w.-]{0,254}(/\w[\w.-]{0,254})*")
"""Paths that COPY takes literally."""


class AllowedRuntimes(NamedTuple):
    """Classes that an image allows in addition to the built-in runtimes, and the files with their code."""

    paths: Sequence[str] = ()
    """Import paths."""
    files: Sequence[str] = ()
    """Modules and packages in the folder of the image."""
    is_limited: bool = False
    """Whether the image trusts no other classes, even if there are no paths."""

    def check(self, folder: Path) -> None:
        """Raise InvalidSettings for paths that the image cannot have."""
        if self.files and not self.paths:
            raise InvalidSettings("--runtime-path needs --allow-runtime")
        TrustedRuntimes.of(self.paths, "--allow-runtime")
        modules = {path.partition(".")[0] for path in self.paths}
        names = [Path(file).name.removesuffix(".py") for file in self.files]
        for file, name in zip(self.files, names, strict=True):
            if not FILE.fullmatch(file) or ".." in Path(file).parts:
                reason = "write a path in the folder, such as runtime.py"
            elif not (folder / file).is_file() and not (folder / file / "__init__.py").is_file():
                reason = f"there is no module or package in {folder}"
            elif name not in modules:
                reason = "no --allow-runtime names a class of this module"
            elif names.count(name) > 1:
                reason = "another --runtime-path has a module of this name"
            else:
                continue
            raise InvalidSettings(f"--runtime-path {file}: {reason}")

    def instructions(self) -> Iterator[str]:
        """Yield the instructions that install the files and the list of trusted runtimes."""
        for file in self.files:
            yield f"COPY {file} {RUNTIMES}/{Path(file).name}"
        names = json.dumps([*TrustedRuntimes.shipped(), *self.paths])
        yield f"RUN mkdir -p {Path(TRUSTED).parent} && printf %s {shlex.quote(names)} > {TRUSTED}"
