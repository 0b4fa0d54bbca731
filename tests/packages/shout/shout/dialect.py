"""Plain text in, plain text out."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferstream.codecs import StringCodec
from inferstream.errors import InferstreamError, InvalidRequest
from inferstream.ext.calls import Admission, Caller, Operation
from inferstream.ext.http import (
    Answer,
    Exchange,
    GatheringRequest,
    InferenceDialect,
    RawHeaders,
    ReadClaim,
    ReadRoute,
    Route,
    describe_get,
    error_headers,
    json_answer,
    status_of,
)
from inferstream.types import InferenceRequest, InferenceResponse

from .action import LISTEN
from .count import Shouts
from .facet import Voice

PLAIN_TEXT = (b"content-type", b"text/plain")


class Shout(InferenceDialect):
    name = "shout"
    inferences = {"/shout/{model_name}": Operation.INFER}
    takes_json = False

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim("/shout", LISTEN, self._models)]

    def described(self) -> Mapping[str, Any]:
        return {"/shout": describe_get("The models that can shout")}

    async def _models(self, route: ReadRoute, caller: Caller, scope: object) -> Answer:
        return json_answer([model.name for model in self._dataplane.faceted(Voice, caller)])

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> "ShoutRequest":
        assert admission is not None  # the path names the model
        voice = admission.facet(Voice)
        if voice is None:
            raise InvalidRequest(f"{admission.model} takes no single text")
        self._dataplane.of(Shouts).count += 1
        return ShoutRequest(admission, voice, body.decode())

    def error(self, error: InferstreamError) -> Answer:
        return status_of(error).http, [PLAIN_TEXT, *error_headers(error)], error.message.encode()


class ShoutRequest(GatheringRequest):
    def __init__(self, admission: Admission, voice: Voice, text: str) -> None:
        self.admission = admission
        self.operation = Operation.INFER if admission.predicts else Operation.STREAM
        self.request = InferenceRequest(inputs=[StringCodec.encode_input(voice.input, [text])])
        self._texts: list[str] = []

    def add(self, response: InferenceResponse) -> bool:
        self._texts += StringCodec.decode_output(response.outputs[0])
        return True

    def end(self) -> tuple[RawHeaders, bytes]:
        return [PLAIN_TEXT], "".join(self._texts).encode()
