"""MCP tools: their list, calls and results."""

import re
from typing import Any

import orjson

from inferstream.errors import InferstreamError, ModelNotFound, ModelNotReady
from inferstream.ext import sse
from inferstream.ext.calls import Caller, Operation, Reply, ServerModels
from inferstream.ext.http import JSON_HEADER, GatherLimit, ParsedRequest, RawHeaders
from inferstream.ext.values import STREAM, parameter_of
from inferstream.plugins.page.flat_schema import flat_schema
from inferstream.types import InferenceResponse

from . import messages
from .calls import NOTHING, Ready, encode_result, run_call
from .joined_items import JoinedItems

Id = str | int | float | None

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""The pattern of valid tool names."""


class AnsweredMessage(InferstreamError):
    """The complete HTTP response to a message. Raised if no model is called."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes) -> None:
        super().__init__("")
        self.status = status
        self.headers = headers
        self.body = body


def list_tools(dataplane: ServerModels, caller: Caller) -> list[dict[str, Any]]:
    """Return the models that the caller may see and call with named arguments, as tools."""
    tools = []
    for name in dict.fromkeys(name for name, _ in dataplane.models(caller)):
        try:
            signature = dataplane.described(name).signature
        except (ModelNotFound, ModelNotReady):
            continue
        inputs = signature.inputs or signature.described
        callable_by_name = inputs or signature.function  # Functions can have no arguments.
        if (
            not callable_by_name
            or not NAME.fullmatch(name)
            or any(parameter_of(tensor, STREAM) for tensor in inputs)
        ):
            continue
        schema, components = flat_schema(inputs, exact=signature.function)
        if components:
            schema["$defs"] = components
        text = orjson.dumps(schema).decode().replace('"#/components/schemas/', '"#/$defs/')
        doc = signature.doc or f"Calls the model {name}."
        tools.append({"name": name, "description": doc, "inputSchema": orjson.Fragment(text)})
    return tools


class ToolCall(ParsedRequest):
    """A tool call, which runs a model.

    If it has a progress token, each stream item is sent as a notification before the result.
    """

    __slots__ = ("_collected", "_id", "_results", "_token")

    def __init__(self, id: Id, ready: Ready, token: str | int | None, limit: int) -> None:
        self.admission, self.request, self._results = ready
        self._id = id
        self._token = token if self.admission.signature.streams else None
        self.operation = Operation.INFER if self._token is None else Operation.STREAM
        self._collected = ToolItems(limit, self._token is None and self.admission.predicts)

    async def open(self) -> Reply:
        """Open the stream for notifications, or run the call to completion.

        Failures are raised as AnsweredMessage.
        """
        admission = self.admission
        try:
            if self._token is not None:
                return await admission.open(Operation.STREAM, self.request)
            await run_call(admission, self.request, self._take)
        except Exception as error:
            if isinstance(error, InferstreamError) and error.refuses_caller:
                raise
            raise AnsweredMessage(
                200, [JSON_HEADER], error_result(self._id, self.wrap_error(error))
            ) from error
        return Reply(NOTHING)

    def _take(self, response: InferenceResponse) -> None:
        """Store the result of a response. Raises PayloadTooLarge."""
        self._collected.add(encode_result(self._results, response))

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [JSON_HEADER], self._result()

    def _result(self) -> bytes:
        return messages.result_document(self._id, self._collected.result())

    def events(self) -> "ToolCall":
        return self

    def __call__(self, response: InferenceResponse) -> bytes:
        """Return a progress notification with the item as its message."""
        self._take(response)
        items = self._collected.items
        params = {"progressToken": self._token, "progress": items.count, "message": to_text(items.last)}
        return sse.event(
            orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        )

    def end(self) -> bytes:
        return sse.event(self._result())

    def failure(self, error: InferstreamError) -> bytes:
        return sse.event(error_result(self._id, error))


class ToolItems:
    """The JSON of a call's items, or of its only item if `single`."""

    def __init__(self, limit: int, single: bool) -> None:
        self.items = JoinedItems(GatherLimit(limit), joins_text=not single)
        self._single = single
        self.add = self.items.add

    def result(self) -> bytes:
        """Return the MCP result, as text and as structured content. String items are concatenated."""
        items = self.items
        item = bytes(items.joined) if self._single else items.text or items.list_document()
        structured = item if item.startswith(b"{") else b'{"result":%b}' % item
        content = [{"type": "text", "text": to_text(item)}]
        return orjson.dumps({"content": content, "structuredContent": orjson.Fragment(structured)})


def to_text(item: bytes) -> str:
    """Return the text of a JSON value. Strings are unquoted."""
    return str(orjson.loads(item)) if item.startswith(b'"') else item.decode()


def error_result(id: Id, error: InferstreamError) -> bytes:
    """Return the result of a failed call, which contains the error message for the calling model."""
    result = {"content": [{"type": "text", "text": error.message}], "isError": True}
    return messages.result_document(id, orjson.dumps(result))
