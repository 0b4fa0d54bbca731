"""OpenAI routes `speech` and `images/generations`, which take a prompt and return bytes.

A model for speech or images takes a string, and returns or yields bytes or an image:
`(text: str, voice: str = "alloy") -> Iterator[bytes]`. Speech is streamed as the model yields it.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time
from typing import Any

import orjson

from inferstream.errors import InferstreamError, InvalidOutput
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
from inferstream.types import InferenceResponse, MetadataTensor

from ..fields import Fields
from ..generation import RESERVED
from ..interface import build_request_by_name, find_only_input, holds_bytes, holds_image, holds_text
from ..openai.dialect import PREFIXES
from ..openai.errors import error_object
from ..schemas import STRING, object_schema
from ..text_dialect import TextDialect, ensure_id
from ..token_counts import count_prompt_tokens

MEDIA_TYPE = "media_type"
"""The response parameter with the media type of an `Event`."""

SPEECH, IMAGES = "/audio/speech", "/images/generations"

MAX_IMAGES = 10

FORMATS = {
    "mp3": b"audio/mpeg",
    "opus": b"audio/ogg",
    "aac": b"audio/aac",
    "flac": b"audio/flac",
    "wav": b"audio/wav",
    "pcm": b"audio/pcm",
}
"""Media types of the formats that a client may request."""

STARTS = {
    b"RIFF": b"audio/wav",
    b"OggS": b"audio/ogg",
    b"fLaC": b"audio/flac",
    b"ID3": b"audio/mpeg",
    b"\xff\xfb": b"audio/mpeg",
    b"\xff\xf3": b"audio/mpeg",
}
"""Media types by the first bytes of a file."""

UNKNOWN = b"application/octet-stream"

KNOWN = RESERVED | {"model", "input", "prompt", "stream", "stream_format", "partial_images", "n"}
"""Fields that are not passed to the model."""

DECLARATION = "(text: str) -> bytes or an Iterator of it"


class Speech(TextDialect):
    """Generates speech and images."""

    name = "audio"
    title = "Audio"
    inferences = {prefix + path: Operation.STREAM for prefix in PREFIXES for path in (SPEECH, IMAGES)}

    def described(self) -> Mapping[str, Any]:
        speech = describe_post(
            "OpenAI's speech",
            object_schema(("model", "input"), model=STRING, input=STRING, voice=STRING),
            {"model": "model", "input": "text", "voice": "alloy"},
        )
        speech["post"]["responses"]["200"]["content"] = {UNKNOWN.decode(): {}, "text/event-stream": {}}
        images = describe_post(
            "OpenAI's images",
            object_schema(("model", "prompt"), model=STRING, prompt=STRING),
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
        fits = partial(find_input, made=made)
        _, admission, text = self._admit_fitting(fields, caller, fits, (verb, "does"), DECLARATION)
        return (ImagesRequest if images else SpeechRequest)(admission, text, fields)

    error_object = staticmethod(error_object)


def holds_picture(tensor: MetadataTensor) -> bool:
    """Return whether a tensor may hold an image file."""
    return holds_bytes(tensor) or holds_image(tensor)


def find_input(signature: Signature, made: Callable[[MetadataTensor], bool]) -> MetadataTensor | None:
    """Return the string input of a model with one output that `made` accepts, or None for other models."""
    outputs = signature.outputs or ()
    return find_only_input(signature, holds_text) if len(outputs) == 1 and made(outputs[0]) else None


def read_bytes(response: InferenceResponse) -> bytes:
    """Return the bytes of a response. Empty if it has no value. Raises InvalidOutput."""
    for output in response.outputs[:1]:
        for value in output.data.flat():
            if isinstance(value, str):  # from a model class that encodes base64 itself
                try:
                    return base64.b64decode(value, validate=True)
                except (binascii.Error, ValueError):
                    raise InvalidOutput(f"Model {response.model_name} answered no bytes.") from None
            return bytes(value)
    return b""


def read_inputs(fields: Fields) -> dict[str, Any]:
    """Return the inputs and parameters other than the prompt. A voice may be an object with an `id`."""
    voice = fields.get("voice")
    more = {"voice": Fields(voice, "voice").require_text("id")} if isinstance(voice, dict) else {}
    return {**fields.other_parameters(KNOWN), **more}


class SpeechRequest(ParsedRequest):
    """A request for speech. The audio is sent as raw bytes, or as base64 in events."""

    __slots__ = ("_events", "_media", "_said")

    def __init__(self, admission: Admission, text: MetadataTensor, fields: Fields) -> None:
        """Raises InvalidRequest naming the invalid field."""
        self.admission = admission
        self._events = fields.choice("stream_format", ("audio", "sse")) == "sse"
        self._said = FORMATS.get(fields.choice("response_format", [*FORMATS]) or "")
        self._media = UNKNOWN
        self.request = build_request_by_name(
            admission.signature, text, fields.require_text("input"), read_inputs(fields)
        )
        streamed = self._events or admission.signature.streams
        self.operation = Operation.STREAM if streamed else Operation.INFER

    async def open(self) -> Reply:
        reply = await self.admission.open(self.operation, self.request)
        if reply.first is not None and not self._events:
            self._media = self._choose_media_type(reply.first)
        return reply

    def _choose_media_type(self, first: InferenceResponse) -> bytes:
        """Return the media type from the model, else from the request, else from the first bytes."""
        media = None if first.parameters is None else first.parameters.get(MEDIA_TYPE)
        if isinstance(media, str) and media.isascii() and media.isprintable():
            return media.encode()
        if self._said is not None:
            return self._said
        start = read_bytes(first)[:4]
        return next((media for mark, media in STARTS.items() if start.startswith(mark)), UNKNOWN)

    @property
    def media_type(self) -> bytes:
        return sse.CONTENT_TYPE if self._events else self._media

    @property
    def heartbeat(self) -> bytes:
        return sse.HEARTBEAT if self._events else b""

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [(b"content-type", self._media)], read_bytes(response)

    def events(self) -> "SpeechRequest":
        return self

    def __call__(self, response: InferenceResponse) -> bytes:
        if not self._events:
            return read_bytes(response)
        audio = base64.b64encode(read_bytes(response)).decode()
        return sse.event(orjson.dumps({"type": "speech.audio.delta", "audio": audio})) if audio else b""

    def end(self) -> bytes:
        if not self._events:
            return b""
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        return sse.event(orjson.dumps({"type": "speech.audio.done", "usage": usage}))

    def failure(self, error: InferstreamError) -> bytes | None:
        return sse.event(orjson.dumps(error_object(error))) if self._events else None


class ImagesRequest(UnaryRequest):
    """A request for `n` images for a prompt."""

    __slots__ = ()

    compressible = False

    def __init__(self, admission: Admission, text: MetadataTensor, fields: Fields) -> None:
        """Raises InvalidRequest naming the invalid field."""
        if fields.choice("response_format", ("b64_json", "url")) == "url":
            raise fields.wrong(
                "response_format", "url is not taken: the server keeps no files; take b64_json"
            )
        if fields.flag("stream"):
            raise fields.wrong("stream", "is not taken; images come whole")
        prompt, count = fields.require_text("prompt"), fields.integer("n", 1, MAX_IMAGES) or 1
        values = {name: value for name, value in read_inputs(fields).items() if name != "response_format"}
        requests = [build_request_by_name(admission.signature, text, prompt, values) for _ in range(count)]
        ensure_id(requests)
        super().__init__(admission, requests)

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        data = [{"b64_json": base64.b64encode(read_bytes(each)).decode()} for each in responses]
        tokens = count_prompt_tokens(responses)
        usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
        return [JSON_HEADER], orjson.dumps({"created": int(time()), "data": data, "usage": usage})
