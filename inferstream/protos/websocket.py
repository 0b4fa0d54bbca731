"""Messages of a WebSocket: V2 requests and responses that share one connection and have ids."""

from typing import Any

import orjson

from ..errors import InferstreamError, InvalidRequest
from ..types import InferenceRequest, InferenceResponse, Parameters
from .dialects import FINAL_RESPONSE as FINAL
from .generate import FlatValues, FlatWriter
from .json_checks import JsonLimits
from .json_requests import BinaryOutputs, build_request, check_id, load_request
from .json_responses import JsonWriter

PARTS = ("first", "next", "last")
V2_KEYS = frozenset(("id", "parameters", "inputs", "outputs", "cancel"))
"""Keys of a whole request in V2."""
LENGTH = 4
"""Bytes at the start of a binary message with the length of its JSON, little-endian."""

EncodedMessage = tuple[bytes, bool]
"""A message and whether it is text."""


class SocketMessage:
    """One message of a client, parsed as far as its id.

    `part` is the position of the message in a request of several messages, and None for a whole request.
    Raises InvalidRequest for a message without a usable id or part, and what `limits` raise.
    """

    __slots__ = ("_is_text", "_tail", "cancel", "document", "id", "part", "size", "text")

    def __init__(self, message: bytes, text: bool, limits: JsonLimits) -> None:
        self._is_text = text
        body, self._tail = _split(message, text)
        limits.check(body)
        document, self.text = load_request(body)
        """The JSON as it arrived, without long lists of numbers."""
        if not isinstance(document, dict):
            raise InvalidRequest("A message must hold a JSON object.")
        self.document: dict[str, Any] = document
        id_value = document.get("id")
        self.id = None if id_value is None or id_value == "" else check_id(id_value)
        self.part = document.get("part")
        self.cancel = document.get("cancel") is True
        self.size = len(message)
        if self.part is not None and self.part not in PARTS:
            raise InvalidRequest('"part" must be "first", "next" or "last".')
        if self.id is None and (self.cancel or self.part is not None):
            raise InvalidRequest('"part" and "cancel" need an "id".')

    @property
    def flat(self) -> bool:
        """Whether the message may hold flat JSON: it has keys that V2 has not."""
        return self.part is None and self._is_text and not V2_KEYS.issuperset(self.document)

    @property
    def bare(self) -> bool:
        """Whether the message contains no request."""
        return self.document.get("inputs") is None

    def request(self, *, nested: bool = False) -> tuple[InferenceRequest, BinaryOutputs | None]:
        """The request, and the outputs that the client requests in binary form. Raises InvalidRequest."""
        return build_request(self.document, self.text, self._tail, nested=nested)


def _split(message: bytes, text: bool) -> tuple[bytes, memoryview | None]:
    """The JSON of a message, and the tensors after it in a binary message."""
    if text:
        return message, None
    end = LENGTH + int.from_bytes(message[:LENGTH], "little")
    if len(message) < LENGTH or end > len(message):
        raise InvalidRequest(
            f"A binary message begins with the length of its JSON in {LENGTH} bytes, little-endian; "
            f"this one of {len(message)} bytes does not."
        )
    return message[LENGTH:end], memoryview(message)[end:]


class V2Messages:
    """Writes responses in V2. `binary` are the outputs that the client requests in binary form."""

    __slots__ = ("_writer",)

    def __init__(self, binary: BinaryOutputs | None) -> None:
        self._writer = JsonWriter(binary)

    def dump(self, response: InferenceResponse, *, final: bool) -> EncodedMessage:
        """A response as a message, binary if one of its tensors is. Raises InvalidOutput."""
        text, blobs = _marked(response, final).accept(self._writer)
        if not blobs:
            return text, True
        return b"".join((len(text).to_bytes(LENGTH, "little"), text, *blobs)), False

    def end(self, model: str, version: str | None, request_id: str | None) -> EncodedMessage:
        """An empty response that ends a stream."""
        document: dict[str, Any] = {"model_name": model}
        if version is not None:
            document["model_version"] = version
        document.update(id=request_id, parameters={FINAL: True}, outputs=[])
        return orjson.dumps(document), True


class FlatMessages:
    """Writes responses as flat objects, those of `generate_stream` with the mark of the last one.

    `named` and `values` are those of the writer.
    """

    __slots__ = ("_writer",)

    def __init__(self, named: bool, values: FlatValues | None) -> None:
        self._writer = FlatWriter(named, values)

    def dump(self, response: InferenceResponse, *, final: bool) -> EncodedMessage:
        """A response as a message. Raises InvalidOutput."""
        return _marked(response, final).accept(self._writer), True

    def end(self, model: str, version: str | None, request_id: str | None) -> EncodedMessage:
        """An object without outputs, which ends a stream."""
        document: dict[str, Any] = {FINAL: True, "model_name": model, "model_version": version or ""}
        if self._writer.named:
            document["id"] = request_id
        return orjson.dumps(document), True


Messages = V2Messages | FlatMessages


def _marked(response: InferenceResponse, final: bool) -> InferenceResponse:
    """A copy that marks the last response. The model may send the original again."""
    sent = {} if response.parameters is None else dict(response.parameters.items())
    sent[FINAL] = final
    return InferenceResponse.of(
        response.model_name, response.outputs, response.model_version, response.id, Parameters.of(sent)
    )


def dump_error(request_id: str | None, error: InferstreamError) -> EncodedMessage:
    """An error. With an id it ends that request; without an id it refers to a message and ends nothing."""
    document = {} if request_id is None else {"id": request_id}
    document.update(error=error.message, code=error.code.value)
    return orjson.dumps(document), True
