"""Runs a model in this process, on an event loop or in threads."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ...concurrency.model_task import run_as_task
from ...concurrency.threads import THREADS, Threads
from ...context import RequestContext, enter
from ...errors import InferstreamError, InvalidOutput, Unsupported
from ...extensions import entries, loading
from ...functions.model import DescribedModel, FunctionModel
from ...garbage import schedule_collection
from ...handlers import HttpRequest, HttpResponse, RouteHandler, get_custom_handlers
from ...model import MLModel, StepModel, resolve_signature
from ...repository.classes import location_in
from ...repository.loading import LoadedModel, load_model
from ...rows import RowErrors
from ...settings import ModelSettings
from ...signature import Signature
from ...telemetry.context import model_var
from ...telemetry.model_meters import ModelMeters
from ...telemetry.stages import StepMeters
from ...types import Headers, InferenceRequest, InferenceResponse, MetadataModelResponse
from ...types.parameters import CarriedHeaders
from ..call import INFER, Call
from ..checks import Strictness, choose_checks, max_batch_size, resolve_strictness
from ..outputs import Finish, choose_finish
from ..reply import Reply
from ..slots import Slots
from ..turns import Turns
from . import kv
from .base import BuildRouteHandler, Capabilities
from .coroutines import InThread, OnLoop
from .method_caller import is_async
from .payloads import Payloads
from .responses import ModelResponses, cause, open_reply, translate_error
from .route_body import RouteBody
from .steps import Steps
from .stream_task import StreamTask
from .threads import ThreadedResponses

UNBLOCKED_SLOTS = 4096
"""Limit on concurrent calls for async models without `max_concurrency`. It only bounds resources."""


AS_STREAM = "call it as a stream (infer_stream, generate_stream, ModelStreamInfer or client.stream())."


class Local:
    """A model in this process: the innermost handler of its calls.

    `loaded` contains the thread of the model's event loop, if the model has one.
    """

    resident = None
    is_restarting = has_workers = False

    def __init__(
        self,
        model: MLModel,
        route_handler: RouteHandler | None = None,
        loaded: LoadedModel | None = None,
    ) -> None:
        settings = model.settings
        self._loaded = loaded or LoadedModel(model)
        self._model = model
        self._name = model.name
        self._running = model.name, model.version or ""
        self.settings = settings
        signature = resolve_signature(model)
        self.signature = signature if model.selects_outputs is False else replace(signature, outputs=None)
        self.form = model.form() if isinstance(model, FunctionModel) else None
        self.routes = [handler for handler, _ in get_custom_handlers(model)]
        self._route_handler = route_handler
        self.strictness = resolve_strictness(settings, model.for_mlserver)
        selects = model.selects_outputs
        if selects is None and self.strictness == "strict":
            selects = False
        known = signature if selects is False else self.signature
        self._checks = choose_checks(known, self.strictness, max_batch_size(settings))
        self._finish = _build_finish(model, signature, selects, self.strictness)
        own = self._loaded.threads if settings.threads == 1 else None  # `load` may change the number.
        self._threads = own or Threads(model.name, settings.threads)
        predicts = type(model).predict is not MLModel.predict
        self._meters = ModelMeters(model.name, model.version)
        self._separates = model.separates_principals
        self._may_report = not isinstance(model, FunctionModel)  # Functions have no KV cache.
        self._steps: Steps | None = None
        self._places = 0
        if isinstance(model, StepModel):
            self._places = settings.max_active
            self._steps = Steps(
                model, settings.max_active, settings.priority_aging, self._loaded.thread, self._loaded.threads
            )
        self._streams = signature.streams
        self._stream_only = self._streams and not predicts
        gathers = self._streams and isinstance(model, FunctionModel) and not model.described.streams
        adapted = adapt(model) if predicts and not isinstance(model, FunctionModel) else frozenset()
        self.capabilities = Capabilities(
            not self._stream_only, self._streams, self._steps is not None, gathers, adapted
        )
        self._predict_blocks = predicts and not is_async(model.predict)
        stream = inspect.unwrap(model.predict_stream)
        self._stream_blocks = self._streams and inspect.isgeneratorfunction(stream)
        self._stream_is_async = inspect.isasyncgenfunction(stream)
        self._thread = self._loaded.thread
        self.slots, fixed = self._slots()
        self._coroutines: InThread | OnLoop
        if self._thread is None:
            self._coroutines = OnLoop(model)
        else:
            self._coroutines = InThread(model, self._thread, None if fixed else self.slots, UNBLOCKED_SLOTS)

    @classmethod
    async def load(
        cls,
        settings: ModelSettings,
        timeout: float,
        build_route_handler: BuildRouteHandler,
    ) -> "Local":
        """Load a model to run in this process. Unloads it again on any failure. Raises ModelLoadFailed."""
        loaded = await load_model(settings, timeout)
        try:
            return cls(loaded.model, await build_route_handler(loaded.model), loaded)
        except BaseException:  # Including cancellation.
            await loaded.unload()
            raise

    def _slots(self) -> tuple[Slots, bool]:
        """Return the number of concurrent calls, and whether it is fixed.

        It is the setting `max_concurrency`, if it is set. Otherwise, it is the number of threads for `def`
        methods. For step models, it is at least twice the number of active streams, so that finished streams
        are replaced immediately. If the model has a separate event loop, the number is adjusted after the
        first call.
        """
        settings = self.settings
        if settings.max_concurrency is not None:
            return Slots(settings.max_concurrency), True
        stepped = 0 if self._steps is None else 2 * settings.max_active
        if self._steps is not None and self._stream_only:
            return Slots(stepped), True
        if self._predict_blocks or self._stream_blocks:
            return Slots(max(stepped, settings.threads or THREADS)), True
        fixed = self._thread is None or self._streams
        return Slots(max(stepped, UNBLOCKED_SLOTS) if fixed else 1), fixed

    @property
    def ready(self) -> bool:
        return bool(self._model.ready)

    @property
    def capacity(self) -> int:
        return self.slots.count if self._steps is None else self.settings.max_active

    def measure(self) -> None:
        if self._may_report:
            kv.measure(self._model, self._places, self._meters)

    def meter(self, meters: ModelMeters) -> None:
        self._meters = meters
        if self._steps is not None:
            self._steps.queue, self._steps.meters = meters.queue, meters.of(StepMeters)

    def set_turns(self, turns: Turns) -> None:
        if self._steps is not None:
            self._steps.set_turns(turns)

    @property
    def describes_itself(self) -> bool:
        """Whether the model overrides `metadata`, so that the result must not be cached."""
        return getattr(self._model.metadata, "__func__", None) is not MLModel.metadata

    async def metadata(self) -> MetadataModelResponse:
        """Return the model's metadata. Raises InferenceFailed if its code raises or returns another type."""
        try:
            own = type(self._model).metadata is not MLModel.metadata
            said = await (self._in_model(self._model.metadata) if own else self._model.metadata())
            if not isinstance(said, MetadataModelResponse):
                raise InvalidOutput(f"Model {self._name} answered a {type(said).__name__} as its metadata.")
            return said
        except BaseException as error:  # Model code may raise anything.
            raise translate_error(error, self._name, None) from cause(error)

    async def call_route(self, request: HttpRequest) -> HttpResponse:
        """Handle a request to one of the model's REST routes. Raises InferenceFailed if its code raises."""
        assert self._route_handler is not None
        model_var.set(self._running)
        try:
            response: HttpResponse = await self._in_model(self._route_handler, request)
            if response.rest is not None:
                response = response._replace(rest=RouteBody(self._name, response.rest, self._in_model))
            return response
        except BaseException as error:  # Model code may raise anything.
            raise translate_error(error, self._name, None) from cause(error)

    async def unload(self) -> None:
        """Run the model's `unload`. Does not wait for threads that are stuck in model code."""
        if self._steps is not None:
            await self._steps.close()
        try:
            await self._loaded.unload()
            kv.forget(self._meters)
        finally:
            self._loaded.close()
            self._threads.close()
            schedule_collection()

    async def _in_model(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Await a coroutine of the model other than an inference, in the model's thread if it has one."""
        if self._thread is None:
            return await run_as_task(function(*arguments))
        return await self._thread.call(function, *arguments)

    def __call__(self, call: Call) -> Awaitable[Reply]:
        model_var.set(self._running)
        single = call.operation is INFER
        remaining = None if call.deadline is None else call.deadline - asyncio.get_running_loop().time()
        request = call.request
        if request._parameters is None and type(headers := request._headers) is Headers:
            carried: CarriedHeaders | None = headers.carried  # Inlines the property, to save a frame.
        else:
            carried = request.carried
        context = RequestContext(remaining, single, carried)
        if self._separates and call.principal:
            context.cache_salt = call.principal
        enter(context)
        if single:
            return self._only_response(call) if self._stream_only else self._predict(request, call.halved)
        return open_reply(self._responses(call))

    def _responses(self, call: Call) -> ModelResponses:
        return ModelResponses(self._start, Payloads(call, self._checks), self._finish)

    async def _predict(self, request: InferenceRequest, halved: bool = False) -> Reply:
        try:
            call = self._in_thread if self._predict_blocks else self._coroutines.predict
            return Reply(self._finish(await call(request), request))
        except RowErrors as error:
            raise self._check_error(error, request) from error.__cause__
        except BaseException as error:  # Model code may raise anything.
            raise translate_error(error, self._name, request.id, halved) from cause(error)

    async def _in_thread(self, request: InferenceRequest) -> InferenceResponse:
        response: Any = await self._threads.run(self._model.predict, request)
        if inspect.isawaitable(response):
            response = await run_as_task(response)
        return cast(InferenceResponse, response)

    def _check_error(self, error: RowErrors, request: InferenceRequest) -> BaseException:
        try:
            if error.response is not None:
                error.response = self._finish(error.response, request)
            return error
        except InferstreamError as wrong:
            return translate_error(wrong, self._name, request.id)

    async def _only_response(self, call: Call) -> Reply:
        """Return the single response of a streaming class, or of a function that reads a stream.

        Raises Unsupported unless there is exactly one response.
        """
        if isinstance(self._model, FunctionModel) and self._model.described.arguments.stream is None:
            raise Unsupported(f"Model {self._name} returns a stream; {AS_STREAM}")
        async with await open_reply(self._responses(call)) as reply:
            first, responses = reply.first, 0
            async for _ in reply:
                responses += 1
                if responses > 1:
                    break
            if first is None or responses > 1:
                many = "more than one response" if responses else "no response"
                raise Unsupported(f"Model {self._name} answered {many}; {AS_STREAM}")
            return Reply(first)

    async def _start(self, payloads: Payloads) -> AsyncIterator[InferenceResponse]:
        """Call any variant of the model's `predict_stream`, and return an async iterator."""
        if not self._streams:
            return self._predict_each(payloads)
        if self._steps is not None:
            return await self._steps.open(payloads)
        predict_stream = cast(Any, self._model.predict_stream)
        if self._stream_blocks:
            return ThreadedResponses(self._threads, partial(predict_stream, payloads))
        start = partial(predict_stream, payloads)
        stream: Any = self._coroutines.stream(start, payloads.call) if self._stream_is_async else start()
        if inspect.isawaitable(stream):
            stream = await run_as_task(stream)
        if hasattr(stream, "__aiter__"):
            responses = cast(AsyncIterator[InferenceResponse], aiter(stream))
            return responses if self._stream_is_async else StreamTask(responses)
        if isinstance(stream, Iterable):
            return ThreadedResponses(self._threads, lambda: cast(Iterable[InferenceResponse], stream))
        raise TypeError(f"predict_stream returned a {type(stream).__name__}, which cannot be iterated")

    async def _predict_each(self, payloads: Payloads) -> AsyncIterator[InferenceResponse]:
        """Yield one response per request, for models that only have `predict`.

        `ModelResponses` logs its errors.
        """
        async for request in payloads:
            call = self._in_thread if self._predict_blocks else self._coroutines.predict
            yield await call(request)


def _build_finish(
    model: MLModel, signature: Signature, selects: bool | None, strictness: Strictness
) -> Finish:
    """Choose how to finish the responses. `selects` is `MLModel.selects_outputs`."""
    settings = model.settings
    # Triton does not compare outputs with their declaration.
    lenient = settings.input_validation == "auto" and strictness == "strict"
    finish = choose_finish(
        model.name,
        model.version,
        selects,
        signature.declared_outputs,
        "declared" if lenient else strictness,
        model.writer() if isinstance(model, DescribedModel) else None,
    )
    finish.place = location_in(model)
    made = (make(settings) for _, make in loading.load_group(entries.OUTPUTS, strict=False))
    finish.rewriters = tuple(made)
    return finish


def adapt(model: MLModel) -> frozenset[str]:
    """Let plug-ins add methods to a model object. Returns the names of the plug-ins that did."""
    return frozenset(
        plugin.name for plugin, add in loading.load_group(entries.ADAPTERS, strict=False) if add(model)
    )
