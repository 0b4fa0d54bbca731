"""The base of runtimes that read one artefact: where its file is looked for, and how many predictions run at once."""

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
"""What pickle says of an object that it looks for in a program."""


class ArtefactModel(FrameworkModel):
    """A model in one file, or in a folder that one file stands for. `open` reads it."""

    artefacts: ClassVar[Sequence[str]]
    """File names of the artefact in a folder, in the order of the search."""

    code_thread: Threads | None = None
    """Runs all code of the model, if several threads may await what it sends."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        if settings.threads is None:
            # Predictions compute. More threads than processors take more memory and save no time.
            runs = self._processors() // max(1, self._threads)
            settings.threads = settings.max_concurrency or max(1, runs)

    def open(self, path: Path) -> Any:
        """Read the artefact and import the framework, which is imported nowhere else. Runs in a thread."""
        raise NotImplementedError

    @property
    def _threads(self) -> int:
        """Threads for one prediction. The default is one, because requests run in parallel already."""
        setting = self._extra("n_jobs", 1)
        if not isinstance(setting, int):
            raise self._failed(f'"n_jobs" in parameters.extra is a number of threads, not {setting!r}')
        return setting

    async def _read(self) -> Any:
        return await asyncio.to_thread(self._opened, self._find())

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call code of the model in the one thread of its life."""
        thread = self.code_thread
        return function(*arguments) if thread is None else thread.submit(function, *arguments).result()

    def _opened(self, path: Path) -> Any:
        self._fixed_arguments(path)
        try:
            with self._importing():
                return self.open(path)
        except AttributeError as error:
            if (missing := _OF_MAIN.search(str(error))) is None:
                raise
            reason = f"{missing[1]} was part of the program (__main__) that saved {path.name}"
            raise self._failed(f"{reason}; put it into a module next to the file, and save again") from None

    def _find(self) -> Path:
        uri = find_artefact(self.settings, self.artefacts)
        path = Path(uri)
        if path.is_file():
            return path
        if path.is_dir():
            raise self._failed(f"its folder holds no {listed(self.artefacts)}")
        raise self._failed(f"{uri} is not a file")


def listed(names: Sequence[str]) -> str:
    """Names as alternatives, for an error message."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
