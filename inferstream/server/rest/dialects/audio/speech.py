"""OpenAI's `speech` and `images/generations`: a text in, bytes out, which stream as their model makes them.

A model speaks or draws that takes a text, and returns or yields bytes or an image:
`(text: str, voice: str = "alloy") -> Iterator[bytes]`.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time
from typing import Any

import orjson

from inferstream.ext import sse
from inferstream.ext.calls import Admission, Caller, Operation, Reply
from inferstream.ext.http import (
    JSON_HEADER,
    Exchange,
    ParsedRequest,
    RawHeaders,
    Route,
    UnaryRequest,
    describe_post,
)
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.token_counts import tokens_read

from .....errors import InferstreamError, InvalidOutput
from .....text.fields import Fields
from .....text.generation import RESERVED
from .....text.interface import holds_bytes, holds_image, holds_text, only_needed, request_by_name
from .....text.schemas import STRING, an_object
from .....types import InferenceResponse, MetadataTensor
from ..openai.dialect import PREFIXES
from ..openai.errors import error_object
from ..text import TextDialect, identified

SPEECH, IMAGES = "/audio/speech", "/images/generations"

MOST_IMAGES = 10

FORMATS = {
    "mp3": b"audio/mpeg",
    "opus": b"audio/ogg",
    "aac": b"audio/aac",
    "flac": b"audio/flac",
    "wav": b"audio/wav",
    "pcm": b"audio/pcm",
}
"""Media types of the formats that a client may ask for."""

STARTS = {
    b"RIFF": b"audio/wav",
    b"OggS": b"audio/ogg",
    b"fLaC": b"audio/flac",
    b"ID3": b"audio/mpeg",
    b"\xff\xfb": b"audio/mpeg",
    b"\xff\xf3": b"audio/mpeg",
}
"""Media types of files by their first bytes."""

UNKNOWN = b"application/octet-stream"

KNOWN = RESERVED | {"model", "input", "prompt", "stream", "stream_format", "partial_images", "n"}
"""Fields that the model does not get as inputs or parameters."""

DECLARATION = "(text: str) -> bytes or an Iterator of it"


class Speech(TextDialect):
    """Audio of a text, and images of one."""

    name = "audio"
    title = "Audio"
    inferences = {prefix + path: Operation.STREAM for prefix in PREFIXES for path in (SPEECH, IMAGES)}

    def described(self) -> Mapping[str, Any]:
        speech = describe_post(
            "OpenAI's speech",
            an_object(("model", "input"), model=STRING, input=STRING, voice=STRING),
            {"model": "model", "input": "text", "voice": "alloy"},
        )
        speech["post"]["responses"]["200"]["content"] = {UNKNOWN.decode(): {}, "text/event-stream": {}}
        images = describe_post(
            "OpenAI's images",
            an_object(("model", "prompt"), model=STRING, prompt=STRING),
            {"model": "model", "prompt": "text"},
            None,
        )
        return {path: speech if path.endswith(SPEECH) else images for path in self.inferences}

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        fields = Fields.read(body)
        images = route.template.endswith(IMAGES)
        made, verb = (holds_picture, "draw") if images else (holds_bytes, "speak")
        fits = partial(made_of, made=made)
        _, admission, text = self._admit_fitting(fields, caller, fits, (verb, "does"), DECLARATION)
        return (ImagesRequest if images else SpeechRequest)(admission, text, fields)

    error_object = staticmethod(error_object)


def holds_picture(tensor: MetadataTensor) -> bool:
    """Whether a tensor may hold an image file."""
    return holds_bytes(tensor) or holds_image(tensor)


def made_of(signature: Signature, made: Callable[[MetadataTensor], bool]) -> MetadataTensor | None:
    """The input of a model that makes something of a text; None for another model."""
    outputs = signature.outputs or ()
    return only_needed(signature, holds_text) if len(outputs) == 1 and made(outputs[0]) else None


def bytes_of(response: InferenceResponse) -> bytes:
    """The bytes of a response; empty for one without a value. Raises InvalidOutput."""
    for output in response.outputs[:1]:
        for value in output.data.flat():
            if isinstance(value, str):  # of a class, which may write it in base64 itself
                try:
                    return base64.b64decode(value, validate=True)
                except (binascii.Error, ValueError):
                    raise InvalidOutput(f"Model {response.model_name} answered no bytes.") from None
            return bytes(value)
    return b""


def values_of(fields: Fields) -> dict[str, Any]:
    """What the model gets beside its text. A voice may be an object with an id."""
    voice = fields.get("voice")
    more = {"voice": Fields(voice, "voice").needed_text("id")} if isinstance(voice, dict) else {}
    return {**fields.others(KNOWN), **more}


class SpeechRequest(ParsedRequest):
    """A text to speak. The bytes go out as they come, or as events with base64."""

    __slots__ = ("_events", "_media", "_said")

    def __init__(self, admission: Admission, text: MetadataTensor, fields: Fields) -> None:
        """Raises InvalidRequest that names the wrong field."""
        self.admission = admission
        self._events = fields.choice("stream_format", ("audio", "sse")) == "sse"
        self._said = FORMATS.get(fields.choice("response_format", [*FORMATS]) or "")
        self._media = UNKNOWN
        self.request = request_by_name(
            admission.signature, text, fields.needed_text("input"), values_of(fields)
        )
        streamed = self._events or admission.signature.streams
        self.operation = Operation.STREAM if streamed else Operation.INFER

    async def open(self) -> Reply:
        reply = await self.admission.open(self.operation, self.request)
        if reply.first is not None and not self._events:
            self._media = self._media_of(reply.first)
        return reply

    def _media_of(self, first: InferenceResponse) -> bytes:
        """What the model says, else what the client asked for, else what the bytes begin as."""
        media = None if first.parameters is None else first.parameters.get(sse.MEDIA_TYPE)
        if isinstance(media, str) and media.isascii() and media.isprintable():
            return media.encode()
        if self._said is not None:
            return self._said
        start = bytes_of(first)[:4]
        return next((media for mark, media in STARTS.items() if start.startswith(mark)), UNKNOWN)

    @property
    def media_type(self) -> bytes:
        return sse.CONTENT_TYPE if self._events else self._media

    @property
    def heartbeat(self) -> bytes:
        return sse.HEARTBEAT if self._events else b""

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [(b"content-type", self._media)], bytes_of(response)

    def events(self) -> "SpeechRequest":
        return self

    def __call__(self, response: InferenceResponse) -> bytes:
        if not self._events:
            return bytes_of(response)
        audio = base64.b64encode(bytes_of(response)).decode()
        return sse.event(orjson.dumps({"type": "speech.audio.delta", "audio": audio})) if audio else b""

    def end(self) -> bytes:
        if not self._events:
            return b""
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        return sse.event(orjson.dumps({"type": "speech.audio.done", "usage": usage}))

    def failure(self, error: InferstreamError) -> bytes | None:
        return sse.event(orjson.dumps(error_object(error))) if self._events else None


class ImagesRequest(UnaryRequest):
    """A text to draw, `n` times."""

    __slots__ = ()

    compressible = False

    def __init__(self, admission: Admission, text: MetadataTensor, fields: Fields) -> None:
        """Raises InvalidRequest that names the wrong field."""
        if fields.choice("response_format", ("b64_json", "url")) == "url":
            raise fields.wrong(
                "response_format", "url is not taken: the server keeps no files; take b64_json"
            )
        if fields.flag("stream"):
            raise fields.wrong("stream", "is not taken; images come whole")
        prompt, count = fields.needed_text("prompt"), fields.integer("n", 1, MOST_IMAGES) or 1
        values = {name: value for name, value in values_of(fields).items() if name != "response_format"}
        requests = [request_by_name(admission.signature, text, prompt, values) for _ in range(count)]
        identified(requests)
        super().__init__(admission, requests)

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        data = [{"b64_json": base64.b64encode(bytes_of(each)).decode()} for each in responses]
        tokens = tokens_read(responses)
        usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
        return [JSON_HEADER], orjson.dumps({"created": int(time()), "data": data, "usage": usage})
