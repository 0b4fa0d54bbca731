"""TorchServe routes: `/predictions` and the list of models. Errors of all other routes name an alternative."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Never
from urllib.parse import parse_qsl
from uuid import uuid4

import orjson

from inferstream.errors import Code, InferstreamError, InvalidRequest, ModelError, Unsupported
from inferstream.ext.calls import Action, Admission, Caller, Operation, Reply
from inferstream.ext.http import (
    JSON_HEADER,
    OBJECT,
    Answer,
    AsgiScope,
    Exchange,
    InferenceDialect,
    ParsedRequest,
    RawHeaders,
    ReadClaim,
    ReadRoute,
    Route,
    describe_post,
    error_headers,
    json_answer,
    json_limits,
    read_parts,
    status_of,
)
from inferstream.types import InferenceResponse

from .envelope import JSON as JSON_TYPE
from .envelope import Posted, PostedField, RowAnswer, decode_response, encode_request

PREDICTIONS = "/predictions/{model_name}"
OURS = f"{__package__}."

FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data"
AS_THEY_ARE = "surrogateescape"
"""The error handler for form bytes that are not UTF-8."""

MAX_FIELDS = 64
"""Maximum number of form fields."""

BODY = "body"
"""The field name for a body that is not a form."""

MANAGEMENT = "TorchServe's management API is not here: /v2/repository loads and unloads models"
WORKFLOWS = "there are no workflows here: a function with the setting `calls` calls other models"
ELSEWHERE = {
    "/models/{path}": MANAGEMENT,
    "/workflows": WORKFLOWS,
    "/workflows/{path}": WORKFLOWS,
    "/wfpredict/{path}": WORKFLOWS,
    "/explanations/{path}": "handlers explain nothing here: KServe's :explain asks a class that has a method explain",
}
"""Messages for unsupported routes, by path."""

TYPES = {
    Code.INVALID: "BadRequestException",
    Code.NOT_FOUND: "ModelNotFoundException",
    Code.UNSUPPORTED: "NotImplementedException",
    Code.OVERLOADED: "ServiceUnavailableException",
}
"""TorchServe error types by code. All others are internal errors."""


class HandlerStatus(ModelError):
    """A handler response with an error status."""

    def __init__(self, answer: RowAnswer) -> None:
        super().__init__("the handler answered so", answer.status)
        self.answer = answer


class TorchServe(InferenceDialect):
    """The prediction API for handlers from archives."""

    name = "torchserve"
    title = "TorchServe"
    yields = True
    body_decides = True
    takes_json = False
    takes_files = True
    methods = ("POST", "PUT")
    version_mark = "/"
    inferences = {PREDICTIONS: Operation.STREAM}

    def reads(self) -> Sequence[ReadClaim]:
        return [
            ReadClaim("/models", Action.SERVER_METADATA, self._models, ("GET", "POST")),
            *(
                ReadClaim(path, Action.SERVER_METADATA, partial(_refuse, sentence), methods=None)
                for path, sentence in ELSEWHERE.items()
            ),
        ]

    def described(self) -> Mapping[str, Any]:
        path = describe_post("TorchServe's predictions", OBJECT, {"data": "text"}, None)
        path["post"]["parameters"] = [
            {"name": "model_name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
        return {PREDICTIONS: path}

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        assert admission is not None
        if not admission.settings.implementation_.startswith(OURS):
            raise InvalidRequest(
                f"Model {route.model} is no handler of TorchServe; it is asked at /v2/models/{route.model}/infer."
            )
        media_type = exchange.head.media_type
        fields = _fields(media_type, body)
        limits = json_limits(self._settings)
        for field in fields:
            if field.media_type == JSON_TYPE:
                limits.check(field.content)
        posted = Posted(uuid4().hex, dict(admission.caller.headers), fields)
        return PredictionRequest(admission, posted)

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        if isinstance(error, HandlerStatus):
            return error.status_code, build_headers(error.answer), error.answer.content
        status = status_of(error, self._settings.status_profile).http
        kind = TYPES.get(error.code, "InternalServerException")
        document = {"code": status, "type": kind, "message": error.message}
        return status, [JSON_HEADER, *error_headers(error)], orjson.dumps(document)

    async def _models(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        if scope["method"] == "POST":
            raise Unsupported(f"{MANAGEMENT}.")
        names = sorted({name for name, _ in self._dataplane.models(caller)})
        models = [{"modelName": name, "modelUrl": name} for name in names]
        return json_answer({"models": models})


async def _refuse(sentence: str, *_: object) -> Never:
    raise Unsupported(f"{sentence}.")


def _fields(media_type: bytes, body: bytes) -> list[PostedField]:
    """Parse the fields of a form, or treat the body as a single field. Raises InvalidRequest."""
    kind = media_type.partition(b";")[0].strip().lower().decode("latin-1")
    if kind == PARTS:
        return [
            PostedField(part.name, part.media_type, part.content) for part in read_parts(media_type, body)
        ]
    if kind == FORM:
        try:
            text = body.decode()
            pairs = parse_qsl(text, True, errors=AS_THEY_ARE, max_num_fields=MAX_FIELDS)
            names = [name.encode().decode() for name, _ in pairs]  # raises UnicodeError if it is not UTF-8
            values = [value.encode(errors=AS_THEY_ARE) for _, value in pairs]
            return [PostedField(name, "", value) for name, value in zip(names, values, strict=True)]
        except ValueError as error:
            raise InvalidRequest(f"The form cannot be read: {error}.") from None
    return [PostedField(BODY, kind, body)]


def build_headers(answer: RowAnswer) -> RawHeaders:
    """Return the headers of a response."""
    own = [("content-type", answer.media_type)]
    named = [
        (name.encode(), value.encode()) for name, value in own if value.isascii() and value.isprintable()
    ]
    return [*named, *ParsedRequest.sendable_headers(answer.headers)]


class PredictionRequest(ParsedRequest):
    """A request to a handler. Responses are sent unmodified, possibly in parts."""

    __slots__ = ("_media", "headers")

    compressible = True

    def __init__(self, admission: Admission, posted: Posted) -> None:
        self.admission = admission
        self.operation = Operation.STREAM if admission.signature.streams else Operation.INFER
        self.request = encode_request(posted)
        self.headers = []
        self._media = b"application/octet-stream"

    async def open(self) -> Reply:
        reply = await self.admission.open(self.operation, self.request)
        if reply.first is not None and self.operation is Operation.STREAM:
            first = decode_response(reply.first.outputs[0])
            if first.status != 200:
                async with reply:
                    raise HandlerStatus(first)
            self.headers = build_headers(first)
            self._media = self.headers.pop(0)[1]
        return reply

    @property
    def media_type(self) -> bytes:
        return self._media

    @property
    def heartbeat(self) -> bytes:
        return b""

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        answer = decode_response(response.outputs[0])
        if answer.status != 200:
            raise HandlerStatus(answer)
        return build_headers(answer), answer.content

    def events(self) -> "PredictionRequest":
        return self

    def __call__(self, response: InferenceResponse) -> bytes:
        return decode_response(response.outputs[0]).content

    def end(self) -> bytes:
        return b""

    def failure(self, error: InferstreamError) -> None:
        return None
