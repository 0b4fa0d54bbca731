"""The base of all runtimes: their own settings, the import of a framework, and the reasons of a failed load."""

import logging
from collections.abc import Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError

from .. import processors
from ..errors import ModelLoadFailed
from ..imports.folders import importing_alone, loading_for
from ..imports.implementation import resolve_class
from ..imports.untrusted import untrusted
from ..model import MLModel
from ..repository.trust import PermittedCall, check_values, permit, refuse_code
from ..repository.uri import get_model_uri, to_absolute_path
from ..settings import ModelParameters, ModelSettings
from ..types import InferenceRequest
from .refusals import inputs_of, is_of_client, refusal_of

logger = logging.getLogger("inferstream.runtimes")

TORCH_LOADING = Lock()
"""Held while torch or transformers loads a model. torch.export reads one file at a time. transformers changes torch for
the whole process, and of two models that load at the same time one gets weights that were never read."""

Settings = TypeVar("Settings", bound=BaseModel)


class FrameworkModel(MLModel):
    """A model whose code is a framework that the package does not depend on."""

    _importing = staticmethod(importing_alone)
    """A block whose imports are complete before another thread starts one."""

    _untrusted = staticmethod(untrusted)
    """The URI of a fetched file in which no code may run, else None."""

    _refuse_code = staticmethod(refuse_code)

    _inputs_of = staticmethod(inputs_of)
    """The names of a request's inputs, for error messages."""

    _refusal_of = staticmethod(refusal_of)
    """The error of a request whose values the framework does not take, with the framework's reason."""

    libraries: ClassVar[Set[str]] = frozenset()
    """Packages of the framework and of the runtime. An error below them is one of the client, not of the model."""

    refused: tuple[type[Exception], ...] = (ValueError,)
    """What the framework raises for values that it does not take. `open` may replace it."""

    permitted_call: ClassVar[PermittedCall] = PermittedCall("")
    """The call that reads files without trust. By default it reads none."""

    @contextmanager
    def _blaming_the_client(self, request: InferenceRequest) -> Iterator[None]:
        """A block in which an error of the framework is the client's, InvalidRequest, unless the model may cause it."""
        try:
            yield
        except self.refused as error:
            if not is_of_client(error, self.refused, self.libraries):
                raise
            raise refusal_of(request, error) from error

    def _loading(self, artefact: str = "") -> AbstractContextManager[None]:
        """A block in which imports and names in pickles are those of the model's folder, or of an artefact's."""
        return loading_for(self.settings.source, artefact)

    def _resolve_class(self, path: str) -> type[Any]:
        """The class `module.Class`, by preference one beside the settings. Raises InvalidSettings."""
        return resolve_class(path, self.settings.source)

    def _processors(self) -> int:
        """Processors of this process, at least one."""
        return processors.share()

    def _extra(self, name: str, default: Any = None) -> Any:
        return self._all_extra().get(name, default)

    def _all_extra(self) -> dict[str, Any]:
        parameters = self.settings.parameters
        return (parameters.extra if parameters is not None else None) or {}

    def _checked(self, kind: type[Settings], values: dict[str, Any] | None = None) -> Settings:
        """The runtime's own settings as an object. Raises ModelLoadFailed that names the wrong one."""
        try:
            return kind(**(self._all_extra() if values is None else values))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            reason = first["msg"]
            if first["type"] == "extra_forbidden" and name in ModelSettings.model_fields:
                reason = 'it belongs two levels up, next to "parameters", in model-settings.json itself'
            elif first["type"] == "extra_forbidden" and name in ModelParameters.model_fields:
                reason = 'it belongs one level up, in "parameters"'
            raise self._failed(f'"{name}" in parameters.extra: {reason}') from error

    @property
    def _gathers(self) -> bool:
        """Whether several requests may come as one."""
        return self.settings.max_batch_size > 1 and self.settings.max_batch_time > 0

    async def _source(self, pretrained: str | None, files: Sequence[str] = ()) -> Path | str:
        """The file or folder of the model, or its name at the hub. `files` are names to look for in its folder."""
        if pretrained is None:
            return Path(await get_model_uri(self.settings, files))
        folder = Path(to_absolute_path(self.settings, pretrained))
        return folder if folder.exists() else pretrained

    def _fixed_arguments(self, source: Path | str) -> dict[str, Any]:
        """Return the fixed arguments of `permitted_call` for files without trust.

        Raises InvalidSettings for files and settings that it does not list.
        """
        return permit(self.permitted_call, source, self.settings)

    def _check_values(self, folder: Path, source: str) -> None:
        """Check the JSON files in a folder of the model `source` at the hub, if it is without trust.

        Raises InvalidSettings for one that chooses code.
        """
        check_values(self.permitted_call, folder, source)

    def _failed(self, reason: str) -> ModelLoadFailed:
        return ModelLoadFailed(f"Model {self.name} did not load: {reason}.")

    def _unreadable(self, path: Path | str, framework: str, error: Exception) -> ModelLoadFailed:
        """Clients may read why a model did not load, and frameworks quote paths and stacks of C++."""
        logger.error("model %s: %s cannot read %s", self.name, framework, path, exc_info=error)
        return self._failed(f"{framework} cannot read {Path(path).name}; the server's log says why")

    def _import(self, module: str, extra: str) -> Any:
        """A module of the framework. Raises ModelLoadFailed that says how to install it."""
        package = module.partition(".")[0]
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
            raise self._failed(f'it needs {package}: pip install "inferstream[{extra}]"') from error
