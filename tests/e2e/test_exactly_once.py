"""Whatever comes, in whatever order, every request gets its own answer or one error, and nothing hangs."""

import asyncio
import json
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass

import grpc
import httpx
import pytest
from httpx_sse import aconnect_sse
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, write_model

CODE = """
import asyncio

from inferstream import MLModel, RowErrors
from inferstream.errors import ModelError
from inferstream.model import Finished, StepModel
from inferstream.types import InferenceResponse, ResponseOutput


def answer(model, values):
    output = ResponseOutput(name="y", shape=[len(values)], datatype="INT64", data=values)
    return InferenceResponse(model_name=model.name, outputs=[output])


class Doubling(MLModel):
    async def predict(self, payload):
        values = payload.inputs[0].data.flat()
        await asyncio.sleep(0.002 * (values[0] % 7))
        bad = {row: ModelError("negative", 418) for row, value in enumerate(values) if value < 0}
        response = answer(self, [2 * value for value in values])
        if bad:
            raise RowErrors(bad, response)
        return response

    async def predict_stream(self, payloads):
        async for payload in payloads:
            value = payload.inputs[0].data.flat()[0]
            for i in range(abs(value) % 5):
                await asyncio.sleep(0.001 * (abs(value) % 3))
                yield answer(self, [value, i])
            if value < 0:
                raise ModelError("negative", 418)


class Stepping(StepModel):
    async def predict(self, payload):
        return await Doubling.predict(self, payload)

    def admit(self, request):
        return [request.inputs[0].data.flat()[0], 0]

    def step(self, states):
        return [self.advance(state) for state in states]

    def advance(self, state):
        value, i = state
        if i == abs(value) % 5:
            return ModelError("negative", 418) if value < 0 else Finished()
        state[1] += 1
        return answer(self, [value, i])
"""

BUSY = {"max_concurrency": 3, "max_queue": 3}
BATCHED = {"max_batch_size": 4, "max_batch_time": 0.002}
MODELS = {
    "plain": ("Doubling", BUSY),
    "batched": ("Doubling", BUSY | BATCHED),
    "cached": ("Doubling", BUSY | {"cache_enabled": True}),
    "both": ("Doubling", BUSY | BATCHED | {"cache_enabled": True, "request_timeout": 10}),
    "steps": ("Stepping", {"max_active": 3, "max_queue": 3}),
}
LIMIT = 20.0
"""Seconds after which a request counts as hanging."""


@pytest.fixture(scope="module")
def mixed(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("mixed") / "models"
    for name, (implementation, given_) in MODELS.items():
        write_model(folder, name, f"mixed.{implementation}", CODE, name=name, **given_)
    cache = {"cache_enabled": True, "cache_size": 3, "cache_max_bytes": 20_000}
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers, **cache}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@dataclass(frozen=True)
class Ask:
    """One request: how it is asked, and when it is given up."""

    model: str
    way: str
    value: int
    rows: int
    delay: float
    leave: float | None
    timeout: int | None
    priority: int

    @property
    def values(self) -> list[int]:
        return [self.value] * self.rows

    @property
    def parameters(self) -> dict[str, int]:
        limit = {} if self.timeout is None else {"timeout": self.timeout}
        return {"priority": self.priority, **limit}

    def json(self, id: str) -> dict:
        tensor = {"name": "x", "datatype": "INT64", "shape": [self.rows], "data": self.values}
        return {"id": id, "inputs": [tensor], "parameters": self.parameters}

    def message(self, id: str) -> ModelInferRequest:
        message = ModelInferRequest(model_name=self.model, id=id)
        message.inputs.add(name="x", datatype="INT64", shape=[self.rows]).contents.int64_contents.extend(
            self.values
        )
        for name, value in self.parameters.items():
            message.parameters[name].int64_param = value
        return message

    def check(self, streams: bool, items: list[list[int]], error: str | None) -> None:
        """The items are its own, in their order, all of them unless there is an error that may be."""
        whole = [[self.value, i] for i in range(abs(self.value) % 5)] if streams else []
        if not streams and self.value >= 0:
            whole = [[2 * value for value in self.values]]
        if error is None:
            assert items == whole, self
            assert self.value >= 0, self
            return
        assert items == whole[: len(items)], self
        allowed = {"overloaded", "deadline"} if self.timeout is not None else {"overloaded"}
        assert error in (allowed | {"negative"} if self.value < 0 else allowed), self


ASKS = st.lists(
    st.builds(
        Ask,
        model=st.sampled_from(sorted(MODELS)),
        way=st.sampled_from(["rest", "sse", "rpc", "rpc stream", "socket"]),
        value=st.integers(-2, 9),
        rows=st.integers(1, 3),
        delay=st.sampled_from([0.0, 0.0, 0.001, 0.005, 0.02]),
        leave=st.sampled_from([None, None, None, 0.0, 0.003, 0.02]),
        timeout=st.sampled_from([None, None, 2_000, 30_000]),
        priority=st.integers(0, 9),
    ),
    min_size=4,
    max_size=40,
)

ERRORS = {429: "overloaded", 504: "deadline", 418: "negative"}
CODES = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: "overloaded",
    grpc.StatusCode.DEADLINE_EXCEEDED: "deadline",
    grpc.StatusCode.INVALID_ARGUMENT: "negative",
}


class Clients:
    """One client for each way to ask; each call returns the items and the kind of the error, if there was one."""

    def __init__(self, server: Running, http: httpx.AsyncClient, channel: grpc.aio.Channel) -> None:
        self._server = server
        self._http = http
        self._stub = GRPCInferenceServiceStub(channel)

    async def ask(self, ask: Ask, id: str) -> None:
        await asyncio.sleep(ask.delay)
        ways = {"rest": self._rest, "sse": self._sse, "rpc": self._rpc, "rpc stream": self._rpc_stream}
        way: Awaitable[None] = ways.get(ask.way, self._socket)(ask, id)
        asking = asyncio.ensure_future(way)
        await asyncio.wait([asking], timeout=LIMIT if ask.leave is None else ask.leave)
        assert asking.done() or ask.leave is not None, f"{id} hangs: {ask}"
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        if not asking.cancelled():
            asking.result()

    def _url(self, ask: Ask, action: str) -> str:
        return f"{self._server.url}/v2/models/{ask.model}/{action}"

    async def _rest(self, ask: Ask, id: str) -> None:
        answer = await self._http.post(self._url(ask, "infer"), json=ask.json(id))
        if answer.status_code != 200:
            return ask.check(False, [], ERRORS[answer.status_code])
        assert answer.json()["id"] == id
        return ask.check(False, [answer.json()["outputs"][0]["data"]], None)

    async def _sse(self, ask: Ask, id: str) -> None:
        items, error = [], None
        url = self._url(ask, "infer_stream")
        async with aconnect_sse(self._http, "POST", url, json=ask.json(id)) as source:
            if source.response.status_code != 200:
                return ask.check(True, [], ERRORS[source.response.status_code])
            async for event in source.aiter_sse():
                assert error is None, "nothing comes after an error"
                found = event.json()
                assert found["id"] == id
                if event.event == "error":
                    error = _kind(found["code"])
                else:
                    items.append(found["outputs"][0]["data"])
        return ask.check(True, items, error)

    async def _rpc(self, ask: Ask, id: str) -> None:
        try:
            answer = await self._stub.ModelInfer(ask.message(id))
        except grpc.aio.AioRpcError as error:
            return ask.check(False, [], CODES[error.code()])
        assert answer.id == id
        return ask.check(False, [list(answer.outputs[0].contents.int64_contents)], None)

    async def _rpc_stream(self, ask: Ask, id: str) -> None:
        items = []

        async def requests():
            yield ask.message(id)

        try:
            metadata = [("x-stream-dialect", "mlserver")]
            async for answer in self._stub.ModelStreamInfer(requests(), metadata=metadata):
                assert answer.id == id
                items.append(list(answer.outputs[0].contents.int64_contents))
        except grpc.aio.AioRpcError as error:
            return ask.check(True, items, CODES[error.code()])
        return ask.check(True, items, None)

    async def _socket(self, ask: Ask, id: str) -> None:
        """Asks three times on one connection, cancels the second, and reads until each has had one end."""
        items: dict[str, list[list[int]]] = {f"{id} {i}": [] for i in range(3)}
        ends: dict[str, str | None] = {}
        url = self._url(ask, "stream").replace("http", "ws", 1)
        async with connect(url) as socket:
            for each in items:
                await socket.send(json.dumps(ask.json(each)))
            await socket.send(json.dumps({"id": f"{id} 1", "cancel": True}))
            while len(ends) < len(items):
                found = json.loads(await socket.recv())
                assert found["id"] not in ends, "one end, and nothing after it"
                if "error" in found:
                    ends[found["id"]] = _kind(found["code"])
                elif found["parameters"]["triton_final_response"]:
                    ends[found["id"]] = None
                else:
                    items[found["id"]].append(found["outputs"][0]["data"])
        for each, error in ends.items():
            if error != "cancelled":
                ask.check(True, items[each], error)


def _kind(code: str) -> str:
    return {"deadline_exceeded": "deadline", "invalid": "negative"}.get(code, code)


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asks=ASKS)
def test_every_request_gets_own_response_or_one_error(mixed: Running, asks: list[Ask]) -> None:
    async def play() -> None:
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(timeout=LIMIT, limits=limits) as http,
            grpc.aio.insecure_channel(mixed.grpc) as channel,
        ):
            clients = Clients(mixed, http, channel)
            await asyncio.gather(*(clients.ask(ask, f"id {i}") for i, ask in enumerate(asks)))

    asyncio.run(play())
    eventually(lambda: quiet(mixed), 10)
    assert mixed.process.poll() is None


def quiet(server: Running) -> bool:
    """Whether no call waits or runs any more, for all the server knows."""
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    names = ("inferstream_calls_in_progress{", "inferstream_queue_depth{", "inferstream_calls_active{")
    return all(line.endswith(" 0.0") for line in lines if line.startswith(names))
