"""Plain text in, plain text out."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferstream.codecs import StringCodec
from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Admission, Caller, Operation
from inferstream.ext.http import (
    Answer,
    Exchange,
    InferenceDialect,
    ParsedRequest,
    ReadClaim,
    ReadRoute,
    Route,
    describe_get,
    json_answer,
)
from inferstream.types import InferenceRequest, InferenceResponse

from .action import LISTEN
from .count import Shouts
from .facet import Voice


class Shout(InferenceDialect):
    name = "shout"
    inferences = {"/shout/{model_name}": Operation.INFER}

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
        voice = admission.pipeline.facet(Voice)
        if voice is None:
            raise InvalidRequest(f"{admission.model} takes no single text")
        self._dataplane.of(Shouts).count += 1
        return ShoutRequest(admission, voice, body.decode())


class ShoutRequest(ParsedRequest):
    def __init__(self, admission: Admission, voice: Voice, text: str) -> None:
        self.admission = admission
        self.operation = Operation.INFER
        self.request = InferenceRequest(inputs=[StringCodec.encode_input(voice.input, [text])])

    def response(self, response: InferenceResponse) -> tuple[list[tuple[bytes, bytes]], bytes]:
        [text] = StringCodec.decode_output(response.outputs[0])
        return [(b"content-type", b"text/plain")], text.encode()
