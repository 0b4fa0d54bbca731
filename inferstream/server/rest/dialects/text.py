"""The base of the dialects of text: texts are read from responses, and a format writes them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeVar

import orjson

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

from ....errors import InferstreamError, ModelNotFound, ModelNotReady
from ....text.fields import Fields, wrong_field
from ....text.generation import Generation
from ....text.inputs import SUFFIX
from ....text.interface import TextInterface
from ....text.reader import TextReader
from ....text.spelling import read_spelling
from ....types import InferenceRequest, InferenceResponse
from .text_models import is_hidden, text_of

Fit = TypeVar("Fit")


class TextDialect(InferenceDialect):
    """A dialect of other servers' clients, whose bodies name the model and say whether they want a stream."""

    yields = True
    body_decides = True

    @abstractmethod
    def error_object(self, error: InferstreamError) -> dict[str, Any]:
        """The body of a request that failed."""

    def _default_model(self, caller: Caller) -> str:
        """The model of requests that name none: that of the settings, else the only one that makes texts.

        Raises InvalidRequest where there is no such model, or more than one; ModelNotReady while models load.
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
        """The model that a body names, or the only one that fits, and what `fits` gives for it.

        `does` are the verb of such models and of one of them. Raises InvalidRequest.
        """
        verb, one_does = does
        if (name := fields.text("model")) is None or not name:
            models = self._dataplane.models(caller)
            known = ((each, self._dataplane.described(each, version).signature) for each, version in models)
            fitting = (each for each, signature in known if fits(signature) is not None)
            name = self._only_model(fitting, f"{{}} {verb}", f"none {one_does}")
        admission = admit_named(self._dataplane, name, caller)
        if (fit := fits(admission.signature)) is None:
            sentence = f"{name} does not {verb}; a model that {one_does} is {declaration}"
            raise wrong_field("model", sentence)
        return name, admission, fit


def admit_named(dataplane: ServerModels, name: str, caller: Caller) -> Admission:
    """Admission to `model` or `model:version`. Raises ModelNotFound, also for a hidden model, PermissionDenied."""
    try:
        admission = dataplane.admit(name, None, caller)
    except ModelNotFound:
        model, _, version = name.rpartition(":")
        if not (model and version):
            raise
        admission = dataplane.admit(model, version, caller)
    if is_hidden(admission.pipeline.settings):
        raise ModelNotFound(name)
    return admission


def generating(admission: Admission, name: str, takes_prompt: bool = False) -> TextInterface:
    """How a model makes texts. Raises InvalidRequest for one that makes none, or takes no prompt."""
    interface = text_of(admission)
    if interface is None:
        raise wrong_field("model", f"{name} does not take text")
    if not interface.generates:
        raise wrong_field("model", f"{name} returns vectors, not texts")
    if takes_prompt and interface.prompt is None:
        raise wrong_field("model", f"{name} takes messages only; use chat completions")
    return interface


def add_suffix(fields: Fields, interface: TextInterface, inputs: dict[str, Any]) -> None:
    """Let the model write what is before the suffix of a request. Raises InvalidRequest where it takes none."""
    if suffix := fields.text(SUFFIX):
        if not interface.takes(SUFFIX):
            raise fields.wrong(SUFFIX, "the model takes no suffix")
        inputs[SUFFIX] = [suffix]


def identified(requests: Sequence[InferenceRequest]) -> str:
    """Give the first request an id, which is that of the response."""
    id = requests[0].id = new_id()
    return id


def token_logprobs(reader: TextReader) -> list[dict[str, Any]]:
    """The log probability of each token read so far, and the reader's list emptied."""
    logprobs = [
        {**_one(each.token, each.logprob), "top_logprobs": [_one(*other) for other in each.top.items()]}
        for each in reader.logprobs
    ]
    reader.logprobs.clear()
    return logprobs


def _one(token: str, logprob: float | None) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": [*read_spelling(token)]}


class TextFormat(ABC):
    """How a dialect writes texts. `index` is the number of a text where a request asks for several."""

    media_type: ClassVar[bytes] = sse.CONTENT_TYPE
    """As in `ParsedRequest`."""

    @property
    def heartbeat(self) -> bytes:
        """As in `ParsedRequest`."""
        return sse.HEARTBEAT

    @abstractmethod
    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        """The event of a piece of a text, which may be empty. Empty bytes where there is nothing to say."""

    @abstractmethod
    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        """The events of the end of a text, and of the piece before it."""

    @abstractmethod
    def closing(self, readers: Sequence[TextReader]) -> bytes:
        """The events after the last text."""

    def collect(self, index: int, text: str, reader: TextReader) -> None:
        """Take note of a piece of a text that is not streamed."""
        return

    @abstractmethod
    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        """The body of a response that is not streamed."""

    @abstractmethod
    def failure(self, error: InferstreamError) -> bytes:
        """The event that ends a stream in error."""


class TextRequest(ParsedRequest):
    """A request for one text or several. Each of `requests` is one text."""

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
        interface = text_of(admission)
        streams = interface is not None and interface.streams
        self._each = Operation.STREAM if streams else Operation.INFER  # which can be batched
        self.operation = Operation.STREAM if streamed or len(requests) > 1 else self._each
        self.generation = generation
        self.limit: int | None = None
        """Bytes of a stream whose last event repeats the whole text."""
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
        return Texts(ids, [self.generation.reader() for _ in ids], self._leave_call)


class Texts:
    """The texts of one request, and which of them have ended."""

    __slots__ = ("_indices", "_leave_call", "_open", "readers")

    def __init__(
        self, ids: Sequence[str], readers: Sequence[TextReader], leave_call: Callable[[str], None] | None
    ) -> None:
        self.readers = readers
        self._indices = {id: index for index, id in enumerate(ids)} if len(ids) > 1 else None
        self._open = set(range(len(ids)))
        self._leave_call = leave_call

    def index(self, response: InferenceResponse) -> int:
        """The number of the text that a response belongs to; -1 if it belongs to one that has ended."""
        if self._indices is None:
            return 0
        index = self._indices[str(response.id)]
        return index if index in self._open else -1

    def end(self, index: int, response: InferenceResponse) -> bool:
        """Count a text as ended. False if it was the last one."""
        self._open.discard(index)
        if self._leave_call is not None and self._open:
            self._leave_call(str(response.id))
        return bool(self._open)

    def unended(self) -> list[int]:
        """The numbers of the texts that have not ended; their models have."""
        unended = sorted(self._open)
        self._open.clear()
        return unended


class TextEvents:
    """Writes the texts of a request as events."""

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
            return self._piece(index, text, reader)
        events = self._format.last(index, text, reader)
        if self._texts.end(index, response):
            return events
        self._ended = events
        return None

    def end(self) -> bytes:
        readers = self._readers
        parts = [self._ended]
        for index in self._texts.unended():
            text = readers[index].end()
            parts.append(self._format.last(index, text, readers[index]))
        parts.append(self._format.closing(readers))
        return b"".join(parts)


class GatheredTexts:
    """Collects the texts of a request for one response."""

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
        for index in self._texts.unended():
            text = readers[index].end()
            self._pieces[index].append(text)
            self._format.collect(index, text, readers[index])
        return [JSON_HEADER], self._format.whole(["".join(pieces) for pieces in self._pieces], readers)
