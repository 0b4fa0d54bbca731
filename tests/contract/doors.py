"""The doors as clients see them, with one face: a response or a stream of texts, and how it ended."""

import json
import queue
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple, Protocol

import grpc
import httpx
from httpx_sse import connect_sse
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from inferstream.extensions.discovery import extensions
from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from inferstream.server.grpc.statuses import StatusCode
from tests import grpc_web
from tests.contract.hosts import Host
from tests.serving import text

CODES = {
    400: "invalid",
    404: "not_found",
    429: "overloaded",
    500: "internal",
    503: "unavailable",
    504: "deadline_exceeded",
    "INVALID_ARGUMENT": "invalid",
    "NOT_FOUND": "not_found",
    "RESOURCE_EXHAUSTED": "overloaded",
    "INTERNAL": "internal",
    "UNAVAILABLE": "unavailable",
    "DEADLINE_EXCEEDED": "deadline_exceeded",
}

LIMIT = 20
"""Seconds after which a call that hangs ends with an error of its client."""


class Failed(Exception):
    """A call that ended with an error; `in_band` where the stream had begun, or has no other place for errors."""

    def __init__(self, code: str | None, *, in_band: bool) -> None:
        super().__init__(code)
        self.code = code
        self.in_band = in_band


class Asked(NamedTuple):
    """A request for a model of texts."""

    model: str
    id: str
    parameters: dict
    words: str = "hello"

    def body(self, **more: object) -> dict:
        return text(self.words, id=self.id, parameters=self.parameters, **more)

    def message(self) -> ModelInferRequest:
        message = ModelInferRequest(model_name=self.model, id=self.id)
        tensor = message.inputs.add(name="text", datatype="BYTES", shape=[1])
        tensor.contents.bytes_contents.append(self.words.encode())
        for name, value in self.parameters.items():
            kind = {float: "double_param", int: "int64_param", str: "string_param"}[type(value)]
            setattr(message.parameters[name], kind, value)
        return message


class Talk(Protocol):
    """A call that is sent request after request, and read meanwhile."""

    def send(self, asked: Asked, *, last: bool = False) -> None: ...

    def __next__(self) -> str: ...

    def close(self) -> None: ...


def client_of(host: Host) -> httpx.Client:
    """A client of the version of HTTP that the host is to be asked in."""
    return httpx.Client(timeout=LIMIT, http1=not host.http2, http2=host.http2)


class Rest:
    """`infer`, and server-sent events of `generate_stream`."""

    talks = False

    def single(self, host: Host, asked: Asked) -> str:
        url = f"{host.url}/v2/models/{asked.model}/infer"
        with client_of(host) as client:
            response = client.post(url, json=asked.body())
        if response.status_code != 200:
            assert response.json()["error"]
            raise Failed(CODES[response.status_code], in_band=False)
        return _text(response.json())

    def stream(self, host: Host, asked: Asked) -> Iterator[str]:
        url = f"{host.url}/v2/models/{asked.model}/generate_stream"
        with (
            client_of(host) as client,
            connect_sse(client, "POST", url, json=asked.body()) as source,
        ):
            if source.response.status_code != 200:
                assert json.loads(source.response.read())["error"]
                raise Failed(CODES[source.response.status_code], in_band=False)
            for event in source.iter_sse():
                item = json.loads(event.data)
                if event.event == "error":
                    raise Failed(item["code"], in_band=True)
                yield _text(item)


class WebSocket:
    """`stream` of a model."""

    talks = True

    def single(self, host: Host, asked: Asked) -> str:
        [found] = self.stream(host, asked, single=True)
        return found

    def stream(self, host: Host, asked: Asked, *, single: bool = False) -> Iterator[str]:
        talk = self.talk(host, asked.model)
        try:
            talk.ask(asked.body(), single=single)
            yield from talk
        finally:
            talk.close()

    def talk(self, host: Host, model: str) -> "SocketTalk":
        return SocketTalk(f"{host.url.replace('http', 'ws', 1)}/v2/models/{model}/stream")


class SocketTalk:
    def __init__(self, url: str) -> None:
        self._opened = ExitStack()
        try:
            # Without compression: thousands of items that are all alike would fit into the sockets' buffers.
            self._socket: ClientConnection | None = self._opened.enter_context(
                connect(url, close_timeout=0.2, compression=None)
            )
        except InvalidStatus as refusal:
            raise Failed(CODES[refusal.response.status_code], in_band=False) from refusal
        self._first = True
        self._single = False

    def ask(self, body: dict, *, single: bool) -> None:
        self._single = single
        self._socket.send(json.dumps(body))

    def send(self, asked: Asked, *, last: bool = False) -> None:
        part = "first" if self._first else "last" if last else "next"
        self._first = False
        self._socket.send(json.dumps(asked.body(part=part)))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._socket is None:
            raise StopIteration
        try:
            item = json.loads(self._socket.recv(timeout=LIMIT))
        except ConnectionClosed as closed:
            raise Failed("closed", in_band=True) from closed
        if "error" in item:
            raise Failed(item["code"], in_band=True)
        if item["parameters"]["triton_final_response"]:
            if not (self._single and item["outputs"]):
                raise StopIteration
            self._single = False
            found = _text(item)
            self.close()
            return found
        return _text(item)

    def close(self) -> None:
        if self._socket is not None:
            self._opened.close()
            self._socket = None


class Grpc:
    """`ModelInfer`, and `ModelStreamInfer` in MLServer's dialect: a stream is one call."""

    talks = True
    dialect = "mlserver"

    def single(self, host: Host, asked: Asked) -> str:
        with grpc.insecure_channel(host.grpc) as channel:
            infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            try:
                data = infer(asked.message().SerializeToString(), timeout=LIMIT)
            except grpc.RpcError as error:
                raise Failed(CODES[error.code().name], in_band=False) from error
        return _message_text(ModelInferResponse.FromString(data))

    def stream(self, host: Host, asked: Asked) -> Iterator[str]:
        talk = self.talk(host, asked.model)
        try:
            talk.send(asked, last=True)
            yield from talk
        finally:
            talk.close()

    def talk(self, host: Host, model: str) -> "RpcTalk":
        return RpcTalk(host.grpc, self.dialect)


class RpcTalk:
    def __init__(self, target: str, dialect: str) -> None:
        self._asked: queue.Queue = queue.Queue()
        self._channel = grpc.insecure_channel(target)
        stream = self._channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        metadata = (("x-stream-dialect", dialect),)
        self._responses = stream(iter(self._asked.get, None), timeout=LIMIT, metadata=metadata)
        self._triton = dialect == "triton"
        self._begun = False

    def send(self, asked: Asked, *, last: bool = False) -> None:
        self._asked.put(asked.message().SerializeToString())
        if last:
            self._asked.put(None)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            data = next(self._responses)
        except grpc.RpcError as error:
            raise Failed(CODES[error.code().name], in_band=self._begun) from error
        self._begun = True
        if not self._triton:
            return _message_text(ModelInferResponse.FromString(data))
        message = ModelStreamInferResponse.FromString(data)
        if message.error_message:
            raise Failed(None, in_band=True)  # Triton's dialect has a sentence and no code
        return _message_text(message.infer_response)

    def close(self) -> None:
        self._asked.put(None)
        self._responses.cancel()
        self._channel.close()


class Triton(Grpc):
    """`ModelStreamInfer` in Triton's dialect: each message is a call, errors are in band."""

    talks = False
    dialect = "triton"

    def single(self, host: Host, asked: Asked) -> str:
        [found] = self.stream(host, asked)
        return found


class GrpcWeb:
    """The RPCs of `Grpc` at the REST port, with all requests in the body."""

    talks = False

    def single(self, host: Host, asked: Asked) -> str:
        found = grpc_web.call(host.url, "ModelInfer", asked.message().SerializeToString())
        _check(found.trailers, begun=False)
        [data] = found.messages
        return _message_text(ModelInferResponse.FromString(data))

    def stream(self, host: Host, asked: Asked) -> Iterator[str]:
        request = asked.message().SerializeToString()
        stream = grpc_web.Stream(host.url, "ModelStreamInfer", request)
        begun = False
        try:
            for data in stream:
                begun = True
                yield _message_text(ModelInferResponse.FromString(data))
            _check(stream.trailers, begun=begun)
        finally:
            stream.close()


def _check(trailers: dict[str, str] | None, *, begun: bool) -> None:
    assert trailers is not None, "the stream has no trailers"
    code = StatusCode(int(trailers["grpc-status"]))
    if code is not StatusCode.OK:
        raise Failed(CODES[code.name], in_band=begun)


DOORS = {
    "rest": Rest(),
    "websocket": WebSocket(),
    "grpc": Grpc(),
    "triton": Triton(),
    "grpc-web": GrpcWeb(),
}
if "triton" not in extensions():  # `make core`
    del DOORS["triton"]


def _text(response: dict) -> str:
    return response["outputs"][0]["data"][0]


def _message_text(message: ModelInferResponse) -> str:
    if message.raw_output_contents:
        return message.raw_output_contents[0][4:].decode()
    return message.outputs[0].contents.bytes_contents[0].decode()
