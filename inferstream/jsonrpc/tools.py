"""Tools of the Model Context Protocol: their list, their calls, and what a call returns."""

import re
from typing import Any

import orjson

from inferstream.errors import InferstreamError, ModelNotFound, ModelNotReady
from inferstream.ext import sse
from inferstream.ext.calls import Caller, Operation, Reply, ServerModels
from inferstream.ext.http import JSON_HEADER, GatherLimit, ParsedRequest, RawHeaders
from inferstream.ext.values import STREAM, parameter_of
from inferstream.plugins.agents.joined_items import JoinedItems
from inferstream.types import InferenceResponse

from ..server.rest.dialects.documentation.flat_schema import flat_schema
from . import messages
from .calls import NOTHING, Ready, ask, written

Id = str | int | float | None

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""The names that tools may have."""


class AnsweredMessage(InferstreamError):
    """A message that has its answer without a call of a model, or instead of one that failed."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes) -> None:
        super().__init__("")
        self.status = status
        self.headers = headers
        self.body = body


def tools_of(dataplane: ServerModels, caller: Caller) -> list[dict[str, Any]]:
    """The models that the caller may see and call by names of arguments, each as a tool."""
    tools = []
    for name in dict.fromkeys(name for name, _ in dataplane.models(caller)):
        try:
            signature = dataplane.described(name).signature
        except (ModelNotFound, ModelNotReady):
            continue
        inputs = signature.inputs or signature.described
        callable_by_name = inputs or signature.function  # a function may take nothing
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
    """A call of a model. With a token for progress, each item of its stream is a notification before the result."""

    __slots__ = ("_collected", "_id", "_results", "_token")

    def __init__(self, id: Id, ready: Ready, token: str | int | None, limit: int) -> None:
        self.admission, self.request, self._results = ready
        self._id = id
        self._token = token if self.admission.signature.streams else None
        self.operation = Operation.INFER if self._token is None else Operation.STREAM
        self._collected = ToolItems(limit, self._token is None and self.admission.predicts)

    async def open(self) -> Reply:
        """Open the stream for notifications, else run the call to its end. A failure is an AnsweredMessage."""
        admission = self.admission
        try:
            if self._token is not None:
                return await admission.open(Operation.STREAM, self.request)
            await ask(admission, self.request, self._take)
        except Exception as error:
            if isinstance(error, InferstreamError) and error.refuses_caller:
                raise
            raise AnsweredMessage(200, [JSON_HEADER], failed(self._id, self.wrap_error(error))) from error
        return Reply(NOTHING)

    def _take(self, response: InferenceResponse) -> None:
        """Keep the result of a response. Raises PayloadTooLarge."""
        self._collected.add(written(self._results, response))

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [JSON_HEADER], self._result()

    def _result(self) -> bytes:
        return messages.result_document(self._id, self._collected.result())

    def events(self) -> "ToolCall":
        return self

    def __call__(self, response: InferenceResponse) -> bytes:
        """A notification of progress, whose message is the item."""
        self._take(response)
        items = self._collected.items
        params = {"progressToken": self._token, "progress": items.count, "message": text_of(items.last)}
        return sse.event(
            orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        )

    def end(self) -> bytes:
        return sse.event(self._result())

    def failure(self, error: InferstreamError) -> bytes:
        return sse.event(failed(self._id, error))


class ToolItems:
    """The JSON of the items of a call; of one item where it is `single`."""

    def __init__(self, limit: int, single: bool) -> None:
        self.items = JoinedItems(GatherLimit(limit), joins_text=not single)
        self._single = single
        self.add = self.items.add

    def result(self) -> bytes:
        """The result as MCP has it: as a text, and structured. Pieces of text are one text."""
        items = self.items
        item = bytes(items.joined) if self._single else items.text or items.list_document()
        structured = item if item.startswith(b"{") else b'{"result":%b}' % item
        content = [{"type": "text", "text": text_of(item)}]
        return orjson.dumps({"content": content, "structuredContent": orjson.Fragment(structured)})


def text_of(item: bytes) -> str:
    """The text of a JSON value: a string is itself."""
    return str(orjson.loads(item)) if item.startswith(b'"') else item.decode()


def failed(id: Id, error: InferstreamError) -> bytes:
    """The message of a call that failed. The model that made the call reads why."""
    result = {"content": [{"type": "text", "text": error.message}], "isError": True}
    return messages.result_document(id, orjson.dumps(result))
