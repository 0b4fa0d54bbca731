"""WebSocket messages: V2 requests and responses with ids, which share one connection."""

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
"""The keys of a complete V2 request."""
LENGTH = 4
"""The size, in bytes, of the little-endian JSON length at the start of a binary message."""

EncodedMessage = tuple[bytes, bool]
"""The bytes of a message, and whether it is a text message."""


class SocketMessage:
    """A client message, parsed except for its tensors.

    `part` is the position of the message in a request that consists of several messages, and None for a
    complete request. Raises InvalidRequest for an invalid id or part, or an error of `limits`.
    """

    __slots__ = ("_is_text", "_tail", "cancel", "document", "id", "part", "size", "text")

    def __init__(self, message: bytes, text: bool, limits: JsonLimits) -> None:
        self._is_text = text
        body, self._tail = _split(message, text)
        limits.check(body)
        document, self.text = load_request(body)
        """The JSON as received, without long lists of numbers."""
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
        """Whether the message may be flat JSON, because it has keys that are not in V2."""
        return self.part is None and self._is_text and not V2_KEYS.issuperset(self.document)

    @property
    def bare(self) -> bool:
        """Whether the message contains no request."""
        return self.document.get("inputs") is None

    def request(self, *, nested: bool = False) -> tuple[InferenceRequest, BinaryOutputs | None]:
        """Return the request, and the outputs that the client requests as binary. Raises InvalidRequest."""
        return build_request(self.document, self.text, self._tail, nested=nested)


def _split(message: bytes, text: bool) -> tuple[bytes, memoryview | None]:
    """Return the JSON of a message, and for a binary message the tensors after it."""
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
    """Writes V2 responses. `binary` selects the outputs that the client requests as binary."""

    __slots__ = ("_writer",)

    def __init__(self, binary: BinaryOutputs | None) -> None:
        self._writer = JsonWriter(binary)

    def dump(self, response: InferenceResponse, *, final: bool) -> EncodedMessage:
        """Return a response as a message, which is binary if one of its tensors is. Raises InvalidOutput."""
        text, blobs = _with_final_flag(response, final).accept(self._writer)
        if not blobs:
            return text, True
        return b"".join((len(text).to_bytes(LENGTH, "little"), text, *blobs)), False

    def end(self, model: str, version: str | None, request_id: str | None) -> EncodedMessage:
        """Return an empty response, sent at the end of a stream."""
        document: dict[str, Any] = {"model_name": model}
        if version is not None:
            document["model_version"] = version
        document.update(id=request_id, parameters={FINAL: True}, outputs=[])
        return orjson.dumps(document), True


class FlatMessages:
    """Writes responses as the flat objects of `generate_stream`, with a marker in the last one.

    `named` and `values` are as in `FlatWriter`.
    """

    __slots__ = ("_writer",)

    def __init__(self, named: bool, values: FlatValues | None) -> None:
        self._writer = FlatWriter(named, values)

    def dump(self, response: InferenceResponse, *, final: bool) -> EncodedMessage:
        """Return a response as a message. Raises InvalidOutput."""
        return _with_final_flag(response, final).accept(self._writer), True

    def end(self, model: str, version: str | None, request_id: str | None) -> EncodedMessage:
        """Return an object without outputs, sent at the end of a stream."""
        document: dict[str, Any] = {FINAL: True, "model_name": model, "model_version": version or ""}
        if self._writer.named:
            document["id"] = request_id
        return orjson.dumps(document), True


Messages = V2Messages | FlatMessages


def _with_final_flag(response: InferenceResponse, final: bool) -> InferenceResponse:
    """Return a copy with the final-response parameter, because the model may send the original again."""
    sent = {} if response.parameters is None else dict(response.parameters.items())
    sent[FINAL] = final
    return InferenceResponse.of(
        response.model_name, response.outputs, response.model_version, response.id, Parameters.of(sent)
    )


def dump_error(request_id: str | None, error: InferstreamError) -> EncodedMessage:
    """Return an error message. With an id, it is the last message of that request.

    Without an id, it only concerns the message that caused it.
    """
    document = {} if request_id is None else {"id": request_id}
    document.update(error=error.message, code=error.code.value)
    return orjson.dumps(document), True
