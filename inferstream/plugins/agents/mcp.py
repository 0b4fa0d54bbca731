"""Models as tools: the Model Context Protocol over streamable HTTP, without session state on the server."""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import orjson

from inferstream.errors import InferstreamError, InvalidRequest, ModelNotFound, NotFound
from inferstream.ext.calls import Admission, Caller, NotLoaded, Operation, Reply, new_id
from inferstream.ext.http import JSON_HEADER, Exchange, InferenceDialect, ParsedRequest, RawHeaders, Route
from inferstream.types import InferenceRequest

from . import messages
from .dialect import prepare_request
from .tools import AnsweredMessage, ToolCall, error_result, list_tools

PATH = "/mcp"

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Supported protocol revisions, newest first. All of them use the streamable HTTP transport."""

SESSION = b"mcp-session-id"
VERSION = b"mcp-protocol-version"

_TOKEN = re.compile(r"[!-~]{1,128}")


class Mcp(InferenceDialect):
    """Exposes each model that can be called with named arguments as a tool."""

    name = "mcp"
    title = "MCP"
    yields = True
    body_decides = True
    inferences = {PATH: Operation.INFER}

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        document = messages.load(body)
        if isinstance(document, list):
            raise messages.WrongMessage("MCP has one message in a body, and no batches.")
        if isinstance(document, dict) and "method" not in document:
            return ServerAnswer(202)  # A response to a server request, although the server never sends any.
        message = messages.parse_message(document)
        sent = dict(exchange.headers)
        asked = sent.get(VERSION, b"").decode("latin-1")
        if asked and asked not in VERSIONS and message.method not in ("initialize", "server/discover"):
            raise messages.WrongMessage(f"The server speaks MCP of {', '.join(VERSIONS)}, and not {asked!r}.")
        session = sent.get(SESSION, b"").decode("latin-1")
        if not message.answered:
            return self._receive_notification(message, caller, session)
        params = message.params if isinstance(message.params, dict) else {}
        if message.method == "tools/call":
            return self._call(message.id, params, caller, session)
        result: Any
        headers: RawHeaders = []
        if message.method == "initialize":
            result = self._initialize(params)
            headers = [(SESSION, new_id().encode())]
        elif message.method == "ping":
            result = {}
        elif message.method == "tools/list":
            result = {"tools": list_tools(self._dataplane, caller)}
        else:
            unknown = messages.WrongMessage(
                f'The server has no method "{message.method}"; it has tools.', messages.METHOD_NOT_FOUND
            )
            return ServerAnswer(200, messages.error_document(message.id, unknown))
        return ServerAnswer(200, messages.result_document(message.id, orjson.dumps(result)), headers)

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        if isinstance(error, AnsweredMessage):
            return error.status, error.headers, error.body
        status, headers, _ = super().error(error)
        return status, headers, messages.error_document(None, error)

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._settings.server_name, "version": self._settings.server_version},
        }

    def _receive_notification(
        self, message: messages.RpcMessage, caller: Caller, session: str
    ) -> "ServerAnswer":
        params = message.params if isinstance(message.params, dict) else {}
        cancelled = None
        if message.method == "notifications/cancelled":
            cancelled = request_id(session, params.get("requestId"))
        before = None if cancelled is None else partial(self._dataplane.cancel, cancelled, caller)
        return ServerAnswer(202, before=before)

    def _call(
        self, id: str | int | float | None, params: dict[str, Any], caller: Caller, session: str
    ) -> ParsedRequest:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            wrong = messages.WrongMessage(
                '"name" must be that of a tool, and "arguments" an object.', messages.INVALID_PARAMS
            )
            return ServerAnswer(200, messages.error_document(id, wrong))
        try:
            prepared = prepare_request(self._dataplane.admit(name, None, caller), arguments)
        except NotLoaded:
            raise
        except ModelNotFound as error:
            self._dataplane.log_rejection(caller, "infer", name, error)
            wrong = messages.WrongMessage(f"Unknown tool: {error.message}", messages.INVALID_PARAMS)
            return ServerAnswer(200, messages.error_document(id, wrong))
        except InvalidRequest as error:
            self._dataplane.log_rejection(caller, "infer", name, error)
            return ServerAnswer(200, error_result(id, error))
        prepared.request.id = request_id(session, id)
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if not isinstance(token, str | int):
            token = None
        return ToolCall(id, prepared, token, self._settings.max_body_bytes)


class _NoAdmission:
    """A placeholder for messages that do not reach a model."""

    metering = None


class ServerAnswer(ParsedRequest):
    """A message that the server handles itself. `before` cancels the call that the message refers to."""

    __slots__ = ("_answered", "_before")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        headers: Sequence[tuple[bytes, bytes]] = (),
        before: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.admission = _NoAdmission()  # type: ignore[assignment]  # only its `metering` is read
        self.operation = Operation.INFER
        self.request = InferenceRequest.of([])
        self._answered = AnsweredMessage(status, [JSON_HEADER, *headers], body)
        self._before = before

    async def open(self) -> Reply:
        """Run `before` and raise AnsweredMessage."""
        if self._before is not None:
            with suppress(NotFound):  # The call has already ended.
                await self._before()
        raise self._answered

    def response(self, response: object) -> tuple[RawHeaders, bytes]:
        raise AssertionError("`open` raises the answer")


def request_id(session: str, id: object) -> str | None:
    """Return the request id with which a client can cancel its call, or None without a session and an id."""
    if isinstance(id, str | int) and _TOKEN.fullmatch(session) and len(str(id)) <= 128:
        return f"{session}:{id}"
    return None
