"""`App`: functions that are served together as models."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, overload

from ..context import OtherModels, models
from ..errors import InvalidSettings
from ..imports.path.owned_folders import plain_name
from ..protos.typed import PREFIX, type_of
from ..settings import ModelSettings
from ..settings.sources import unknown_fields, validated
from ..settings.versions import newest
from ..signature import FunctionRpc
from .errors import ErrorMap, location_of, unbound
from .function import BatchBounds, Function, ModelFunction, pascal
from .hooks import Hook, Hooks, check_hook
from .injection import State
from .lock import Lock, Locked, TypeChanged, lock_path, merged, read_lock
from .middleware import Middleware
from .model import model_class
from .steps import StepFunction

SERVICE = "inferstream.App"
"""The gRPC service of apps that name none."""

_SERVICE_NAME = re.compile(r"(?!(grpc|inference)\.)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=Hook)
M = TypeVar("M", bound=Middleware)


class App:
    """Functions, each a model. `server start module:app` serves them.

    `service` is the name of the typed gRPC service. `classic` gives its messages BlazeRPC's form.
    """

    def __init__(self, name: str = "app", *, service: str = SERVICE, classic: bool = False) -> None:
        if not _SERVICE_NAME.fullmatch(service):
            raise InvalidSettings(
                f'service="{service}" is no name of a gRPC service such as "shop.Prices"; '
                "the packages grpc and inference are the server's own"
            )
        self.name = name
        self.service = service
        self.classic = classic
        self.state = State()
        self.functions: dict[tuple[str, str | None], ModelFunction] = {}
        self.errors = ErrorMap()
        self.hooks = Hooks()
        self.middlewares: list[Middleware] = []
        self.lock: Lock | None = None
        """The fields of typed requests in the lock file. None until somebody needs them, or after a reload."""
        self.defined_in(sys._getframe(1))

    def defined_in(self, frame: FrameType) -> None:
        """Remember the module that makes this app, where other processes import it."""
        self._globals = frame.f_globals
        self._module: str = self._globals.get("__name__", "__main__")

    @overload
    def model(self, name: F, /) -> F: ...

    @overload
    def model(
        self,
        name: str | None = None,
        /,
        *,
        version: str | None = None,
        streaming: bool | None = None,
        batch: int = 0,
        within_ms: float = 0.0,
        **settings: Any,
    ) -> Callable[[F], F]: ...

    def model(
        self,
        name: Any = None,
        /,
        *,
        version: str | None = None,
        streaming: bool | None = None,
        batch: int = 0,
        within_ms: float = 0.0,
        **settings: Any,
    ) -> Any:
        """Serve a function as the model `name`, which is the function's own name by default.

        The annotations say what it takes and returns. A function that yields makes a stream. With `batch`, it takes
        and returns lists, and a call of it gets up to `batch` items of requests that arrive within `within_ms`
        milliseconds. `settings` are fields of `model-settings.json`. The function itself is not changed.
        Raises InvalidSettings, which names file, function and parameter.
        """
        if name is not None and not isinstance(name, str):
            self._add(Function(name, _name_of(name), app=self))
            return name

        def decorate(function: F) -> F:
            batching = BatchBounds(batch, within_ms)
            own = name or _name_of(function)
            self._add(Function(function, own, version, settings, self, batching, streaming))
            return function

        return decorate

    @overload
    def steps(self, name: Callable[..., Any], /) -> StepFunction: ...

    @overload
    def steps(
        self, name: str | None = None, /, *, version: str | None = None, **settings: Any
    ) -> Callable[[Callable[..., Any]], StepFunction]: ...

    def steps(self, name: Any = None, /, *, version: str | None = None, **settings: Any) -> Any:
        """Serve a step function, which advances all streams of the model together.

        It takes the list of active states and returns one item for each: a value, None for none yet, or
        `Finished()`. `@step.admit` marks the function that makes a state of the arguments of a request, and
        `@step.release` the one that gets a state at its end.
        """

        called = None if name is None or isinstance(name, str) else name

        def decorate(function: Callable[..., Any]) -> StepFunction:
            own = name if called is None and name else _name_of(function)
            step = StepFunction(function, own, version, settings, self)
            self._add(step)
            return step

        return decorate if called is None else decorate(called)

    def middleware(self, function: M) -> M:
        """Run a function around every call of every model: `async def f(call, call_next)`.

        It sees the call (model, headers, principal), may refuse it by an exception, and returns the reply of
        `call_next(call)`. See `inferstream.Refused`.
        """
        if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # its kind is meant, not whether it is there
        ):
            raise InvalidSettings(f"{location_of(function)}: a middleware is an `async def`")
        self.middlewares.append(function)
        return function

    @property
    def models(self) -> OtherModels:
        """The models that the running function may call, those of its setting `calls`: `await app.models.embed(text)`.

        Raises RuntimeError elsewhere.
        """
        return models()

    def error(self, exception: type[Exception], *, status: int, message: str | None = None) -> None:
        """Answer an exception of a function with this HTTP status, and the gRPC status that belongs to it.

        The client gets `message`, by default the exception's own text.
        """
        self.errors.add(exception, status, message)

    def on_load(self, hook: H) -> H:
        """Run a function before the first model of the app loads, in each process that runs any.

        Raises InvalidSettings for a hook that takes arguments or yields.
        """
        check_hook(hook)
        self.hooks.load.append(hook)
        return hook

    def on_unload(self, hook: H) -> H:
        """Run a function after the last model of the app is unloaded. Raises as `on_load`."""
        check_hook(hook)
        self.hooks.unload.append(hook)
        return hook

    def __iter__(self) -> Iterator[ModelFunction]:
        return iter(self.functions.values())

    def __getitem__(self, key: str) -> ModelFunction:
        """The function of a model, by `name` or `name@version`. Raises KeyError."""
        name, _, version = key.partition("@")
        return self.functions[name, version or None]

    def rpc_of(self, function: ModelFunction) -> FunctionRpc | None:
        """The typed RPC of a model; None for an older version of it. Raises InvalidSettings as `fields_of`."""
        if newest(version for name, version in self.functions if name == function.name) != function.version:
            return None
        fields = self.fields_of(function)
        numbers = {name: fields[name].number for name in function.arguments.names}
        method = f"{PREFIX}{pascal(function.name)}"
        return FunctionRpc(self.service, method, numbers, self.classic, function.streams)

    def fields_of(self, function: ModelFunction) -> Locked:
        """The fields of a model's typed request, removed ones too.

        Arguments without a number in the lock file follow those that have one. Raises InvalidSettings for an argument
        that has another type there.
        """
        if self.lock is None:
            file = self.lock_file
            self.lock = {} if file is None else read_lock(file)
        types = {tensor.name: type_of(tensor, self.classic) for tensor in function.arguments.tensors()}
        try:
            return merged(self.lock.get(function.name, {}), types)
        except TypeChanged as error:
            raise InvalidSettings(f'{function.location}: model "{function.name}": {error}') from None

    @property
    def lock_file(self) -> Path | None:
        """The lock file beside the module of this app; None for an app that cannot be imported."""
        path, source = self.import_path()
        return None if path is None or source is None else lock_path(path, source)

    def import_path(self) -> tuple[str | None, str | None]:
        """The import path of this app and the file of its module; None where other processes cannot import it."""
        name = next((name for name, value in self._globals.items() if value is self), None)
        file = self._globals.get("__file__")
        if name is None or file is None or self._module == "__main__":
            return None, None
        is_package = Path(file).name == "__init__.py"
        module = plain_name(self._module)
        root = Path(file).resolve().parents[module.count(".") + is_package]
        return f"{module}:{name}", str(root / Path(file).name)

    def settings(self, path: str | None = None, source: str | None = None) -> list[ModelSettings]:
        """The settings of each model. `path` is the import path of the app, which worker processes need."""
        return [self._settings_of(function, path, source) for function in self]

    def _settings_of(self, function: ModelFunction, path: str | None, source: str | None) -> ModelSettings:
        values = dict(function.settings)
        if function.version is not None:
            values["parameters"] = {**values.get("parameters", {}), "version": function.version}
        if function.batching.rows > 1:
            values["max_batch_size"] = function.batching.rows
            values["max_batch_time"] = function.batching.within_ms / 1000
        key = function.name if function.version is None else f"{function.name}@{function.version}"
        implementation = model_class(function)
        values |= {"implementation": implementation, "name": function.name}
        settings = validated(ModelSettings, values, function.location)
        settings._source = source
        settings.serve_class(implementation, None if path is None else f"{path}/{key}")
        return settings

    def _add(self, function: ModelFunction) -> None:
        if faults := unknown_fields(ModelSettings, function.settings):
            raise InvalidSettings(f"{function.location}: {'; '.join(faults).replace(' and ignored', '')}")
        key = (function.name, function.version)
        if key in self.functions:
            other = self.functions[key].location
            raise InvalidSettings(f'{function.location}: a model "{function.name}" is there already: {other}')
        method = pascal(function.name)
        for known in self:
            if known.name != function.name and pascal(known.name) == method:
                raise InvalidSettings(
                    f'{function.location}: models "{known.name}" and "{function.name}" '
                    f"would share the RPC Predict{method}"
                )
        self.functions[key] = function


def _name_of(function: Any) -> str:
    """The name of a function, or of the class of an object that can be called."""
    return getattr(unbound(function), "__name__", type(function).__name__)
