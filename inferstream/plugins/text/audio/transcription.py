"""OpenAI routes `transcriptions` and `translations`, which convert an audio file in a form to text."""

from collections.abc import Mapping
from typing import Any

import orjson

from inferstream.errors import InferstreamError, InvalidOutput
from inferstream.ext import sse
from inferstream.ext.calls import Admission, Caller, Operation
from inferstream.ext.http import (
    JSON_HEADER,
    Exchange,
    Gathering,
    GatheringRequest,
    ParsedRequest,
    RawHeaders,
    Route,
    describe_post,
    read_parts,
)
from inferstream.ext.runtimes import Signature
from inferstream.types import InferenceResponse, MetadataTensor

from ..fields import MAX_INTEGER, Fields, wrong_field
from ..generation import RESERVED
from ..interface import (
    FLOATS,
    build_request_by_name,
    find_only_input,
    holds_bytes,
    holds_json,
    holds_text,
)
from ..openai.dialect import PREFIXES
from ..openai.errors import error_object
from ..schemas import FLAG, STRING, object_schema
from ..text_dialect import TextDialect
from .transcript import Transcript, write_subtitles

TRANSCRIPTIONS, TRANSLATIONS = "/audio/transcriptions", "/audio/translations"

FILE = "file"
MAX_FIELD_LENGTH = 64 * 1024
"""Maximum size in bytes of a form field other than the file."""

TASK = "task"
"""The input that a translation model must declare. Its value is `translate`."""

KNOWN = RESERVED | {FILE, "model", "response_format", "stream", "include", "timestamp_granularities"}
"""Form fields that are not passed to the model."""

FORMATS = ("json", "text", "verbose_json", "srt", "vtt")
STREAMED = FORMATS[:2]
TIMED = ("srt", "vtt")
"""Formats that require timed segments."""

DECLARATION = "(audio: bytes) -> str, an Iterator of it, or of objects with start, end and text"
PLAIN = (b"content-type", b"text/plain; charset=utf-8")


class Transcription(TextDialect):
    """Transcribes and translates audio files."""

    name = "audio"
    title = "Audio"
    takes_json = False
    takes_files = True
    inferences = {
        prefix + path: Operation.STREAM for prefix in PREFIXES for path in (TRANSCRIPTIONS, TRANSLATIONS)
    }

    def described(self) -> Mapping[str, Any]:
        properties: dict[str, Any] = {
            FILE: {"type": "string", "format": "binary"},
            "model": STRING,
            "language": STRING,
        }
        properties |= {"response_format": {"type": "string", "enum": [*FORMATS]}, "stream": FLAG}
        form = object_schema((FILE, "model"), **properties)
        paths: dict[str, Any] = {}
        for path in self.inferences:
            paths[path] = describe_post(f"OpenAI's {path.rpartition('/')[2]}", form, {"model": "model"})
            paths[path]["post"]["requestBody"]["content"] = {"multipart/form-data": {"schema": form}}
        return paths

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        file, fields = read_form(exchange.head.media_type, body)
        does = "transcribe", "does"
        _, admission, audio = self._admit_fitting(fields, caller, find_audio_input, does, DECLARATION)
        translates = route.template.endswith(TRANSLATIONS)
        return TranscriptionRequest(admission, audio, file, fields, translates)

    error_object = staticmethod(error_object)


def find_audio_input(signature: Signature) -> MetadataTensor | None:
    """Return the input of a transcription model, or None for other models.

    A transcription model takes bytes and returns a string or JSON.
    """
    outputs = signature.outputs or ()
    if len(outputs) != 1 or not (holds_text(outputs[0]) or holds_json(outputs[0])):
        return None
    return find_only_input(signature, holds_bytes)


def read_form(media_type: bytes, body: bytes) -> tuple[bytes, Fields]:
    """Return the file and the fields of a form. Raises InvalidRequest or UnsupportedEncoding."""
    file: bytes | None = None
    values: dict[str, Any] = {}
    for name, content, *_ in read_parts(media_type, body):
        listed, name = name.endswith("[]"), name.removesuffix("[]")
        if not listed and (name in values or (name == FILE and file is not None)):
            raise wrong_field(name[:40], "is given twice")
        if name == FILE:
            file = content
            continue
        if len(content) > MAX_FIELD_LENGTH:
            raise wrong_field(name[:40], f"is longer than {MAX_FIELD_LENGTH} bytes")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise wrong_field(name[:40], "is not UTF-8") from None
        values[name] = [*values.get(name, ()), text] if listed else text
    if not file:
        raise wrong_field(FILE, "is missing" if file is None else "is empty")
    return file, Fields(values)


class TranscriptionRequest(GatheringRequest):
    """A file to transcribe, and the response format."""

    __slots__ = ("_format", "_language", "_model", "_stream", "_task", "_transcript")

    compressible = True

    def __init__(
        self, admission: Admission, audio: MetadataTensor, file: bytes, fields: Fields, translates: bool
    ) -> None:
        """Raises InvalidRequest naming the invalid field."""
        signature = admission.signature
        assert signature.outputs
        self.admission = admission
        self._model = admission.model
        json = holds_json(signature.outputs[0])
        self._transcript = Transcript(self._model, json)
        self._format = fields.choice("response_format", FORMATS) or FORMATS[0]
        self._stream = fields.choice("stream", ("true", "false", "True", "False")) in ("true", "True")
        self._task = "translate" if translates else "transcribe"
        self._language = fields.text("language") or ""
        if self._format in TIMED and not json:
            sentence = f"{self._format} needs segments, and {self._model} returns texts alone"
            raise fields.wrong("response_format", sentence)
        if self._stream and self._format not in STREAMED:
            raise fields.wrong("response_format", f"{self._format} is not streamed; json and text are")
        inputs = {tensor.name: tensor for tensor in signature.inputs or ()}
        if translates and TASK not in inputs:
            raise fields.wrong("model", f'{self._model} does not translate; it needs an input "{TASK}"')
        more = {
            name: _convert_field(fields, name, inputs.get(name))
            for name in fields.names()
            if name not in KNOWN and name != audio.name
        }
        if translates:
            more[TASK] = self._task
        self.request = build_request_by_name(signature, audio, file, more)
        self.operation = Operation.STREAM if self._stream or signature.streams else Operation.INFER

    def gathering(self) -> Gathering | None:
        return None if self._stream else self

    def events(self) -> "TranscriptEvents":
        return TranscriptEvents(self._transcript)

    def failure(self, error: InferstreamError) -> bytes:
        return sse.event(orjson.dumps(error_object(error)))

    def add(self, response: InferenceResponse) -> bool:
        self._transcript.add(response)
        return True

    def end(self) -> tuple[RawHeaders, bytes]:
        """Return the headers and body of a complete response. Raises InvalidOutput."""
        transcript = self._transcript
        if self._format == "text":
            return [PLAIN], f"{transcript.text}\n".encode()
        if self._format in TIMED:
            if not transcript.segments and transcript.text:
                raise InvalidOutput(f"Model {self._model} answered no segments, which {self._format} needs.")
            return [PLAIN], write_subtitles(transcript.segments, self._format == "vtt").encode()
        document: dict[str, Any] = {"text": transcript.text}
        if self._format == "verbose_json":
            segments = [
                {**each.more, "id": index, "start": each.start, "end": each.end, "text": each.text}
                for index, each in enumerate(transcript.segments)
            ]
            ends = [each.end for each in transcript.segments]
            facts = {"language": self._language, "duration": max(ends, default=0.0), **transcript.facts}
            document = {"task": self._task, **facts, **document, "segments": segments}
        return [JSON_HEADER], orjson.dumps(document)


def _convert_field(fields: Fields, name: str, tensor: MetadataTensor | None) -> Any:
    """Convert a form field to the datatype of an input. Raises InvalidRequest."""
    value = fields.get(name)
    if isinstance(value, list):
        raise fields.wrong(name, "must not be a list")
    datatype = "BYTES" if tensor is None else tensor.datatype
    try:
        if datatype in FLOATS:
            return Fields({name: float(value)}).number(name)
        if "INT" in datatype:
            return Fields({name: int(value[:20])}).integer(name, -MAX_INTEGER - 1, MAX_INTEGER)
    except ValueError:
        raise fields.wrong(name, "must be a number") from None
    if datatype == "BOOL":
        return fields.require_choice(name, ("true", "false")) == "true"
    return value


class TranscriptEvents:
    """Writes the transcript as delta events and a final event with the full text."""

    __slots__ = ("_transcript",)

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def __call__(self, response: InferenceResponse) -> bytes:
        text = self._transcript.add(response)
        return sse.event(orjson.dumps({"type": "transcript.text.delta", "delta": text})) if text else b""

    def end(self) -> bytes:
        done = {"type": "transcript.text.done", "text": self._transcript.text}
        return sse.event(orjson.dumps(done))
