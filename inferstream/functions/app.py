"""`App`, a collection of functions that are served as models."""

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
from ..protos.typed import PREFIX, field_type
from ..settings import ModelSettings
from ..settings.sources import unknown_fields, validate
from ..settings.versions import newest
from ..signature import FunctionRpc
from .errors import ErrorMap, source_location, unwrap_partial
from .function import BatchBounds, Function, ModelFunction, pascal
from .hooks import Hook, Hooks, check_hook
from .injection import State
from .lock import Lock, Locked, TypeChanged, lock_path, merge_fields, read_lock
from .middleware import Middleware
from .model import model_class
from .steps import StepFunction

SERVICE = "inferstream.App"
"""The default gRPC service name of apps."""

_SERVICE_NAME = re.compile(r"(?!(grpc|inference)\.)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=Hook)
M = TypeVar("M", bound=Middleware)


class App:
    """A collection of functions, each served as a model. Start it with `server start module:app`.

    `service` is the name of the typed gRPC service. `classic` selects the BlazeRPC message format.
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
        """The fields of typed requests in the lock file.

        None until they are first needed, and after a reload.
        """
        self.remember_module(sys._getframe(1))

    def remember_module(self, frame: FrameType) -> None:
        """Remember the module that creates this app, from which other processes import it."""
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
        """Serve a function as the model `name`, by default the name of the function.

        Annotations define its arguments and results. A function that yields returns a stream. With `batch`,
        the function takes and returns lists, and a call receives up to `batch` items of requests that arrive
        within `within_ms` milliseconds. `settings` are fields of `model-settings.json`. The function itself
        is not modified. Raises InvalidSettings naming the file, function and parameter.
        """
        if name is not None and not isinstance(name, str):
            self._add(Function(name, _get_name(name), app=self))
            return name

        def decorate(function: F) -> F:
            batching = BatchBounds(batch, within_ms)
            own = name or _get_name(function)
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

        It takes a list of active states and returns one item for each: a value, None (no value yet), or
        `Finished()`. `@step.admit` marks the function that creates a state from the arguments of a request,
        and `@step.release` the function that is called with a state when its stream ends.
        """

        called = None if name is None or isinstance(name, str) else name

        def decorate(function: Callable[..., Any]) -> StepFunction:
            own = name if called is None and name else _get_name(function)
            step = StepFunction(function, own, version, settings, self)
            self._add(step)
            return step

        return decorate if called is None else decorate(called)

    def middleware(self, function: M) -> M:
        """Run a function around every call of every model: `async def f(call, call_next)`.

        It can inspect the call (model, headers, principal), reject it by raising an exception, and return the
        reply of `call_next(call)`. See `inferstream.Refused`.
        """
        if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # its kind matters, not its existence
        ):
            raise InvalidSettings(f"{source_location(function)}: a middleware is an `async def`")
        self.middlewares.append(function)
        return function

    @property
    def models(self) -> OtherModels:
        """The models that the current function may call, for example `await app.models.embed(text)`.

        The setting `calls` lists them. Raises RuntimeError outside a call.
        """
        return models()

    def error(self, exception: type[Exception], *, status: int, message: str | None = None) -> None:
        """Map an exception that functions raise to an HTTP status and the corresponding gRPC status.

        The client receives `message`, by default the message of the exception.
        """
        self.errors.add(exception, status, message)

    def on_load(self, hook: H) -> H:
        """Run a function before the first model of the app loads, in each process that runs one.

        Raises InvalidSettings for a hook that takes arguments or yields.
        """
        check_hook(hook)
        self.hooks.load.append(hook)
        return hook

    def on_unload(self, hook: H) -> H:
        """Run a function after the last model of the app is unloaded. Raises the same errors as `on_load`."""
        check_hook(hook)
        self.hooks.unload.append(hook)
        return hook

    def __iter__(self) -> Iterator[ModelFunction]:
        return iter(self.functions.values())

    def __getitem__(self, key: str) -> ModelFunction:
        """Return the function of a model, by `name` or `name@version`. Raises KeyError."""
        name, _, version = key.partition("@")
        return self.functions[name, version or None]

    def rpc_of(self, function: ModelFunction) -> FunctionRpc | None:
        """Return the typed RPC of a model.

        Returns None for an older version. Raises the same errors as `fields_of`.
        """
        if newest(version for name, version in self.functions if name == function.name) != function.version:
            return None
        fields = self.fields_of(function)
        numbers = {name: fields[name].number for name in function.arguments.names}
        method = f"{PREFIX}{pascal(function.name)}"
        return FunctionRpc(self.service, method, numbers, self.classic, function.streams)

    def fields_of(self, function: ModelFunction) -> Locked:
        """Return the fields of a model's typed request, including removed ones.

        Arguments without a number in the lock file are numbered after the others. Raises InvalidSettings for
        an argument with a different type in the lock file.
        """
        if self.lock is None:
            file = self.lock_file
            self.lock = {} if file is None else read_lock(file)
        types = {tensor.name: field_type(tensor, self.classic) for tensor in function.arguments.tensors()}
        try:
            return merge_fields(self.lock.get(function.name, {}), types)
        except TypeChanged as error:
            raise InvalidSettings(f'{function.location}: model "{function.name}": {error}') from None

    @property
    def lock_file(self) -> Path | None:
        """The lock file next to the module of this app. None if the app cannot be imported."""
        path, source = self.import_path()
        return None if path is None or source is None else lock_path(path, source)

    def import_path(self) -> tuple[str | None, str | None]:
        """Return the import path of this app and the file of its module.

        Returns None if other processes cannot import it.
        """
        name = next((name for name, value in self._globals.items() if value is self), None)
        file = self._globals.get("__file__")
        if name is None or file is None or self._module == "__main__":
            return None, None
        is_package = Path(file).name == "__init__.py"
        module = plain_name(self._module)
        root = Path(file).resolve().parents[module.count(".") + is_package]
        return f"{module}:{name}", str(root / Path(file).name)

    def settings(self, path: str | None = None, source: str | None = None) -> list[ModelSettings]:
        """Return the settings of each model. `path` is the import path of the app for worker processes."""
        return [self._build_settings(function, path, source) for function in self]

    def _build_settings(self, function: ModelFunction, path: str | None, source: str | None) -> ModelSettings:
        values = dict(function.settings)
        if function.version is not None:
            values["parameters"] = {**values.get("parameters", {}), "version": function.version}
        if function.batching.rows > 1:
            values["max_batch_size"] = function.batching.rows
            values["max_batch_time"] = function.batching.within_ms / 1000
        key = function.name if function.version is None else f"{function.name}@{function.version}"
        implementation = model_class(function)
        values |= {"implementation": implementation, "name": function.name}
        settings = validate(ModelSettings, values, function.location)
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


def _get_name(function: Any) -> str:
    """Return the name of a function, or the class name of a callable object."""
    return getattr(unwrap_partial(function), "__name__", type(function).__name__)
