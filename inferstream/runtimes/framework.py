"""The base class of all runtimes: settings, framework imports, and load errors."""

import logging
from collections.abc import Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError

from .. import processors
from ..errors import HINT, ModelLoadFailed, install_command
from ..imports.folders import importing_alone, loading_for
from ..imports.implementation import resolve_class
from ..model import MLModel
from ..repository.trust import PermittedCall, UntrustedOrigin, check_values, permit, reject_code
from ..repository.uri import get_model_uri, to_absolute_path
from ..settings import ModelParameters, ModelSettings
from ..types import InferenceRequest
from .refusals import format_inputs, is_client_error, to_client_error

logger = logging.getLogger("inferstream.runtimes")

TORCH_LOADING = Lock()
"""Held while PyTorch or transformers loads a model.

torch.export can load only one file at a time. transformers modifies PyTorch globally, so if two models loaded
at the same time, one would have uninitialised weights.
"""

Settings = TypeVar("Settings", bound=BaseModel)


class FrameworkModel(MLModel):
    """A model run by a framework that is not a dependency of this package."""

    _importing = staticmethod(importing_alone)
    """A context manager that completes its imports before another thread starts one."""

    _untrusted = staticmethod(UntrustedOrigin.author)
    """Return the origin of a file whose author is not trusted with code, else None."""

    _refuse_code = staticmethod(reject_code)

    _inputs_of = staticmethod(format_inputs)
    """Return the names of a request's inputs for error messages."""

    _refusal_of = staticmethod(to_client_error)
    """Return the error for a request whose values the framework rejects, with the framework's message."""

    libraries: ClassVar[Set[str]] = frozenset()
    """Packages of the framework and the runtime. Errors raised in them can be client errors."""

    refused: tuple[type[Exception], ...] = (ValueError,)
    """Exceptions that the framework raises for invalid values. `open` may replace the tuple."""

    permitted_call: ClassVar[PermittedCall] = PermittedCall("")
    """The call that may read untrusted files. By default, untrusted files are not read."""

    @contextmanager
    def _convert_client_errors(self, request: InferenceRequest) -> Iterator[None]:
        """A context manager that converts framework errors to InvalidRequest if the client caused them."""
        try:
            yield
        except self.refused as error:
            if not is_client_error(error, self.refused, self.libraries):
                raise
            raise to_client_error(request, error) from error

    def _loading(self, artefact: str = "") -> AbstractContextManager[None]:
        """Return a context manager in which imports and pickles use the folder of the model or artefact."""
        return loading_for(self.settings.source, artefact)

    def _resolve_class(self, path: str) -> type[Any]:
        """Return the class `module.Class`, preferably from the settings folder. Raises InvalidSettings."""
        return resolve_class(path, self.settings.source)

    def _processors(self) -> int:
        """Return the number of processors for this process, at least one."""
        return processors.share()

    def _extra(self, name: str, default: Any = None) -> Any:
        return self._all_extra().get(name, default)

    def _all_extra(self) -> dict[str, Any]:
        parameters = self.settings.parameters
        return (parameters.extra if parameters is not None else None) or {}

    def _validate_settings(self, kind: type[Settings], values: dict[str, Any] | None = None) -> Settings:
        """Validate the runtime's settings. Raises ModelLoadFailed naming the invalid one."""
        try:
            return kind(**(self._all_extra() if values is None else values))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            reason = first["msg"].removeprefix("Value error, ")
            if first["type"] == "extra_forbidden" and name in ModelSettings.model_fields:
                reason = 'it belongs two levels up, next to "parameters", in model-settings.json itself'
            elif first["type"] == "extra_forbidden" and name in ModelParameters.model_fields:
                reason = 'it belongs one level up, in "parameters"'
            where = f'"{name}" in parameters.extra' if name else "parameters.extra"
            raise self._build_load_error(f"{where}: {reason}") from error

    @property
    def _gathers(self) -> bool:
        """Whether several requests may be batched into one."""
        return self.settings.max_batch_size > 1 and self.settings.max_batch_time > 0

    async def _source(self, pretrained: str | None, files: Sequence[str] = ()) -> Path | str:
        """Return the model file, its folder, or its name on the Hugging Face Hub.

        `files` are file names to search for in the folder.
        """
        if pretrained is None:
            return Path(await get_model_uri(self.settings, files))
        folder = Path(to_absolute_path(self.settings, pretrained))
        return folder if folder.exists() else pretrained

    def _fixed_arguments(self, source: Path | str) -> dict[str, Any]:
        """Return the fixed arguments of `permitted_call` for untrusted files.

        Raises InvalidSettings for files and settings that it does not list.
        """
        return permit(self.permitted_call, source, self.settings)

    def _check_values(self, folder: Path, source: str) -> None:
        """Check the JSON files of an untrusted model from the Hugging Face Hub.

        Raises InvalidSettings if one names code to run.
        """
        check_values(self.permitted_call, folder, source)

    def _build_load_error(self, reason: str) -> ModelLoadFailed:
        return ModelLoadFailed(f"Model {self.name} did not load: {reason}.")

    def _unreadable(self, path: Path | str, framework: str, error: Exception) -> ModelLoadFailed:
        """Log an error of the framework, and return an error without its message.

        The message may contain paths and C++ stack traces.
        """
        logger.error("model %s: %s cannot read %s", self.name, framework, path, exc_info=error)
        return self._build_load_error(f"{framework} cannot read {Path(path).name}; the server's log says why")

    def _needs(self, package: str, extra: str, what: str = "it needs") -> ModelLoadFailed:
        """Return the error for a framework that is not installed."""
        reason = f"{what} {package}, which is not installed{HINT}{install_command(extra)}"
        return ModelLoadFailed(f"Model {self.name} did not load: {reason}")

    def _import(self, module: str, extra: str) -> Any:
        """Import a framework module. Raises ModelLoadFailed with installation instructions."""
        package = module.partition(".")[0]
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
            raise self._needs(package, extra) from None
