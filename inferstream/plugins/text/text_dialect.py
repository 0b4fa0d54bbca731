"""Base classes of text dialects, which read text from responses and write it in the format of an API."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeVar

import orjson

from inferstream.errors import HINT, InferstreamError, ModelNotFound, ModelNotReady
from inferstream.ext import sse
from inferstream.ext.calls import Admission, Caller, Operation, Reply, ServerModels, new_id
from inferstream.ext.http import (
    JSON_HEADER,
    Answer,
    GatherLimit,
    InferenceDialect,
    ParsedRequest,
    RawHeaders,
    error_headers,
    status_of,
)
from inferstream.ext.runtimes import Signature
from inferstream.types import InferenceRequest, InferenceResponse

from .fields import Fields, wrong_field
from .generation import Generation
from .inputs import SUFFIX
from .interface import TextInterface
from .reader import TextReader
from .spelling import read_spelling
from .text_models import find_text_interface, is_hidden, list_text_models

MAX_NAMES = 8
"""Maximum number of models that an error message lists."""

LISTED = "GET /v1/models lists the models that take text"

Fit = TypeVar("Fit")


class TextDialect(InferenceDialect):
    """A dialect whose request bodies specify the model and whether to stream."""

    yields = True
    body_decides = True

    @abstractmethod
    def error_object(self, error: InferstreamError) -> dict[str, Any]:
        """Return the body of an error response."""

    def _default_model(self, caller: Caller) -> str:
        """Return the model for requests that name none: the default in the settings, or the only text model.

        Raises InvalidRequest unless exactly one such model exists, or ModelNotReady while models load.
        """
        if self._settings.default_model is not None:
            return self._settings.default_model
        models = self._dataplane.faceted(TextInterface, caller)
        names = sorted({model.name for model in models if model.facet.makes_texts})
        if not names and (loading := self._dataplane.loading()) is not None:
            raise ModelNotReady(*loading)
        return self._only_model(names, f"{len(names)} models return texts: {{}}", "no model returns texts")

    def error_status(self, error: InferstreamError) -> int:
        return status_of(error, self._settings.status_profile).http

    def error(self, error: InferstreamError) -> Answer:
        return (
            self.error_status(error),
            [JSON_HEADER, *error_headers(error)],
            orjson.dumps(self.error_object(error)),
        )

    def _admit_fitting(
        self,
        fields: Fields,
        caller: Caller,
        fits: Callable[[Signature], Fit | None],
        does: tuple[str, str],
        declaration: str,
    ) -> tuple[str, Admission, Fit]:
        """Admit a call to the model in the body or the only one that fits, and return what `fits` returned.

        `does` is the verb for error messages, in plural and singular. Raises InvalidRequest.
        """
        verb, one_does = does
        if (name := fields.text("model")) is None or not name:
            models = self._dataplane.models(caller)
            known = ((each, self._dataplane.described(each, version).signature) for each, version in models)
            fitting = (each for each, signature in known if fits(signature) is not None)
            name = self._only_model(fitting, f"{{}} {verb}", f"none {one_does}")
        admission = admit_by_name(self._dataplane, name, caller)
        if (fit := fits(admission.signature)) is None:
            sentence = f"{name} does not {verb}; a model that {one_does} is {declaration}"
            raise wrong_field("model", sentence)
        return name, admission, fit


def admit_by_name(dataplane: ServerModels, name: str, caller: Caller) -> Admission:
    """Admit a call to `model` or `model:version`.

    Raises ModelNotFound, also for a hidden model, or PermissionDenied.
    """
    try:
        admission = dataplane.admit(name, None, caller)
    except ModelNotFound as error:
        model, _, version = name.rpartition(":")
        if not (model and version):
            if "; " not in error.message:  # the caller may not list the models
                raise
            raise ModelNotFound(name, None, _available(dataplane, caller)) from None
        admission = dataplane.admit(model, version, caller)
    if is_hidden(admission.settings):
        raise ModelNotFound(name)
    return admission


def _available(dataplane: ServerModels, caller: Caller) -> str:
    """List the models that take text, for an error message."""
    names = sorted({name for name, _ in list_text_models(dataplane, caller)})
    more = ", ..." if len(names) > MAX_NAMES else ""
    return f"models that take text: {', '.join(names[:MAX_NAMES])}{more}" if names else "no model takes text"


def require_text_interface(admission: Admission, name: str, takes_prompt: bool = False) -> TextInterface:
    """Return the text interface of a model that generates text.

    Raises InvalidRequest for other models and, with `takes_prompt`, for models without a prompt.
    """
    interface = find_text_interface(admission)
    if interface is None:
        raise wrong_field("model", f"{name} does not take text{HINT}{LISTED}")
    if not interface.generates:
        raise wrong_field("model", f"{name} returns vectors, not texts")
    if takes_prompt and interface.prompt is None:
        raise wrong_field("model", f"{name} takes messages only; use chat completions")
    return interface


def add_suffix(fields: Fields, interface: TextInterface, inputs: dict[str, Any]) -> None:
    """Add the suffix of a request to the inputs (fill-in-the-middle).

    Raises InvalidRequest if the model takes none.
    """
    if suffix := fields.text(SUFFIX):
        if not interface.takes(SUFFIX):
            raise fields.wrong(SUFFIX, "the model takes no suffix")
        inputs[SUFFIX] = [suffix]


def ensure_id(requests: Sequence[InferenceRequest]) -> str:
    """Generate the ID of the first request, which is also the response ID, and return it."""
    id = requests[0].id = new_id()
    return id


def take_logprobs(reader: TextReader) -> list[dict[str, Any]]:
    """Return the log probability of each token read so far, and clear the reader's list."""
    logprobs = [
        {
            **_format_logprob(each.token, each.logprob),
            "top_logprobs": [_format_logprob(*other) for other in each.top.items()],
        }
        for each in reader.logprobs
    ]
    reader.logprobs.clear()
    return logprobs


def _format_logprob(token: str, logprob: float | None) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": [*read_spelling(token)]}


class TextFormat(ABC):
    """Serialises completions for a dialect. `index` is the number of the completion within its request."""

    media_type: ClassVar[bytes] = sse.CONTENT_TYPE
    """As in `ParsedRequest`."""

    @property
    def heartbeat(self) -> bytes:
        """As in `ParsedRequest`."""
        return sse.HEARTBEAT

    @abstractmethod
    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        """Return the event for a piece of text, which may be empty. Returns empty bytes to send nothing."""

    @abstractmethod
    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        """Return the events for the last piece of a completion and for its end."""

    @abstractmethod
    def closing(self, readers: Sequence[TextReader]) -> bytes:
        """Return the events after the last completion."""

    def collect(self, index: int, text: str, reader: TextReader) -> None:
        """Record a piece of text that is not streamed."""
        return

    @abstractmethod
    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        """Return the body of a response that is not streamed."""

    @abstractmethod
    def failure(self, error: InferstreamError) -> bytes:
        """Return the final event of a stream that fails."""


class TextRequest(ParsedRequest):
    """A request for one or several completions. Each of `requests` generates one."""

    __slots__ = (
        "_each",
        "_format",
        "_leave_call",
        "_requests",
        "_streamed",
        "generation",
        "limit",
        "pending",
    )

    compressible = True

    def __init__(
        self,
        admission: Admission,
        generation: Generation,
        requests: Sequence[InferenceRequest],
        format: TextFormat,
        streamed: bool,
    ) -> None:
        self.admission = admission
        self.request = requests[0]
        interface = find_text_interface(admission)
        streams = interface is not None and interface.streams
        self._each = Operation.STREAM if streams else Operation.INFER  # unary calls can be batched
        self.operation = Operation.STREAM if streamed or len(requests) > 1 else self._each
        self.generation = generation
        self.limit: int | None = None
        """Maximum size in bytes of a stream whose last event repeats the whole text."""
        self.pending = generation.pending
        self._requests = requests
        self._format = format
        self._streamed = streamed
        self._leave_call: Callable[[str], None] | None = None

    @property
    def media_type(self) -> bytes:
        return self._format.media_type

    @property
    def heartbeat(self) -> bytes:
        return self._format.heartbeat

    def open(self) -> Awaitable[Reply]:
        if len(self._requests) == 1:
            return self.admission.open(self.operation, self.request)
        group = self.admission.group()
        self._leave_call = group.leave_call
        return group.open(self._each, self._requests)

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        gathered = GatheredTexts(self._format, self._texts())
        gathered.add(response)
        return gathered.end()

    @property
    def is_streamed(self) -> bool:
        return self._streamed

    def gathering(self) -> "GatheredTexts | None":
        return None if self._streamed else GatheredTexts(self._format, self._texts())

    def events(self) -> "TextEvents":
        return TextEvents(self._format, self._texts(), self.limit)

    def failure(self, error: InferstreamError) -> bytes:
        return self._format.failure(error)

    def _texts(self) -> "Texts":
        ids = [str(request.id) for request in self._requests]
        return Texts(ids, [self.generation.create_reader() for _ in ids], self._leave_call)


class Texts:
    """The completions of one request, and which of them have finished."""

    __slots__ = ("_indices", "_leave_call", "_open", "readers")

    def __init__(
        self, ids: Sequence[str], readers: Sequence[TextReader], leave_call: Callable[[str], None] | None
    ) -> None:
        self.readers = readers
        self._indices = {id: index for index, id in enumerate(ids)} if len(ids) > 1 else None
        self._open = set(range(len(ids)))
        self._leave_call = leave_call

    def index(self, response: InferenceResponse) -> int:
        """Return the number of the completion that a response belongs to, or -1 if it has finished."""
        if self._indices is None:
            return 0
        index = self._indices[str(response.id)]
        return index if index in self._open else -1

    def end(self, index: int, response: InferenceResponse) -> bool:
        """Mark a completion as finished. Returns False if it was the last one."""
        self._open.discard(index)
        if self._leave_call is not None and self._open:
            self._leave_call(str(response.id))
        return bool(self._open)

    def take_running(self) -> list[int]:
        """Return the numbers of the open completions when the stream ends, and mark them as finished."""
        unended = sorted(self._open)
        self._open.clear()
        return unended


class TextEvents:
    """Writes the completions of a request as events."""

    __slots__ = ("_ended", "_format", "_piece", "_readers", "_texts")

    def __init__(self, format: TextFormat, texts: Texts, limit: int | None) -> None:
        self._format = format
        self._piece = format.piece
        if limit is not None:
            self._piece = GatherLimit(limit, "ask for less").counting(format.piece)
        self._texts = texts
        self._readers = texts.readers
        self._ended = b""

    def __call__(self, response: InferenceResponse) -> bytes | None:
        index = self._texts.index(response)
        if index < 0:
            return b""
        reader = self._readers[index]
        text = response.accept(reader)
        if reader.finish_reason is None:
            piece = self._piece(index, text, reader)
            return _announce_resumption(piece, reader) if reader.resumed else piece
        events = self._format.last(index, text, reader)
        if self._texts.end(index, response):
            return events
        self._ended = events
        return None

    def end(self) -> bytes:
        readers = self._readers
        parts = [self._ended]
        for index in self._texts.take_running():
            text = readers[index].end()
            parts.append(self._format.last(index, text, readers[index]))
        parts.append(self._format.closing(readers))
        return b"".join(parts)


def _announce_resumption(events: bytes, reader: TextReader) -> bytes:
    """Add `resumed` to the first JSON object of the events, if there is one."""
    reader.resumed = b"{" not in events
    return events.replace(b"{", b'{"resumed":true,', 1)


class GatheredTexts:
    """Collects the completions of a request for a single response."""

    __slots__ = ("_format", "_pieces", "_texts")

    def __init__(self, format: TextFormat, texts: Texts) -> None:
        self._format = format
        self._texts = texts
        self._pieces: list[list[str]] = [[] for _ in texts.readers]

    def add(self, response: InferenceResponse) -> bool:
        index = self._texts.index(response)
        if index < 0:
            return True
        reader = self._texts.readers[index]
        text = response.accept(reader)
        self._pieces[index].append(text)
        self._format.collect(index, text, reader)
        return reader.finish_reason is None or self._texts.end(index, response)

    def end(self) -> tuple[RawHeaders, bytes]:
        readers = self._texts.readers
        for index in self._texts.take_running():
            text = readers[index].end()
            self._pieces[index].append(text)
            self._format.collect(index, text, readers[index])
        return [JSON_HEADER], self._format.whole(["".join(pieces) for pieces in self._pieces], readers)
