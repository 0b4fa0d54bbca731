"""The base class of runtimes that read one artefact, and run a limited number of predictions at once."""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..concurrency.threads import Threads
from ..repository.uri import find_artefact
from ..settings import ModelSettings
from .framework import FrameworkModel

_OF_MAIN = re.compile(r"attribute '([\w.]+)' on <module '[\w.]*__(?:mp_)?main__'")
"""The error message of pickle for an object that was defined in a script."""


class ArtefactModel(FrameworkModel):
    """A model in one file, or in a folder identified by one file. `open` reads it."""

    artefacts: ClassVar[Sequence[str]]
    """File names of the artefact in a folder, in search order."""

    code_thread: Threads | None = None
    """The thread for all model code, if several threads may wait for its results."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        if settings.threads is None:
            # Predictions are CPU-bound, so more threads than processors only take memory.
            runs = self._processors() // max(1, self._threads)
            settings.threads = settings.max_concurrency or max(1, runs)

    def open(self, path: Path) -> Any:
        """Read the artefact. Runs in a thread, and is the only place that imports the framework."""
        raise NotImplementedError

    @property
    def _threads(self) -> int:
        """The number of threads per prediction, by default one, because requests already run in parallel."""
        setting = self._extra("n_jobs", 1)
        if not isinstance(setting, int):
            raise self._build_load_error(
                f'"n_jobs" in parameters.extra is a number of threads, not {setting!r}'
            )
        return setting

    async def _read(self) -> Any:
        return await asyncio.to_thread(self._open_artefact, self._find())

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call code of the model, in `code_thread` if it is set."""
        thread = self.code_thread
        return function(*arguments) if thread is None else thread.submit(function, *arguments).result()

    def _open_artefact(self, path: Path) -> Any:
        self._fixed_arguments(path)
        try:
            with self._importing():
                return self.open(path)
        except AttributeError as error:
            if (missing := _OF_MAIN.search(str(error))) is None:
                raise
            reason = f"{missing[1]} was part of the program (__main__) that saved {path.name}"
            raise self._build_load_error(
                f"{reason}; put it into a module next to the file, and save again"
            ) from None

    def _find(self) -> Path:
        uri = find_artefact(self.settings, self.artefacts)
        path = Path(uri)
        if path.is_file():
            return path
        if path.is_dir():
            raise self._build_load_error(f"its folder holds no {join_alternatives(self.artefacts)}")
        raise self._build_load_error(f"{uri} is not a file")


def join_alternatives(names: Sequence[str]) -> str:
    """Join names as alternatives for an error message."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
