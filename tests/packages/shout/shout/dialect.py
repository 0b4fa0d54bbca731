"""Plain text in, plain text out."""

from inferstream.codecs import StringCodec
from inferstream.ext.calls import Admission, Caller, Operation
from inferstream.ext.http import Exchange, InferenceDialect, ParsedRequest, Route
from inferstream.types import InferenceRequest, InferenceResponse


class Shout(InferenceDialect):
    name = "shout"
    inferences = {"/shout/{model_name}": Operation.INFER}

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> "ShoutRequest":
        assert admission is not None  # the path names the model
        return ShoutRequest(admission, body.decode())


class ShoutRequest(ParsedRequest):
    def __init__(self, admission: Admission, text: str) -> None:
        self.admission = admission
        self.operation = Operation.INFER
        self.request = InferenceRequest(inputs=[StringCodec.encode_input("text", [text])])

    def response(self, response: InferenceResponse) -> tuple[list[tuple[bytes, bytes]], bytes]:
        [text] = StringCodec.decode_output(response.outputs[0])
        return [(b"content-type", b"text/plain")], text.encode()
