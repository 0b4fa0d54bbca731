"""BlazeRPC's own clients against a running server."""

import json
from collections.abc import Iterator

import numpy as np
import pytest

blazerpc = pytest.importorskip("blazerpc.jsonrpc_client", exc_type=ImportError)

from blazerpc import BlazeApp, BlazeClient, TensorInput, TensorOutput
from blazerpc.codegen.proto_types import _TensorProtoMsg as TensorProto
from blazerpc.exceptions import BlazeRPCError
from grpclib import GRPCError, Status

from tests.serving import Running, eventually

pytestmark = pytest.mark.filterwarnings("default")  # its own, and those of what it depends on

APP = """
from collections.abc import AsyncIterator
import numpy as np
from inferstream import App, Refused, TensorInput, TensorOutput

app = App()

@app.model
def add(a: int, b: int = 1) -> int:
    return a + b

@app.model
def scale(x: TensorInput[np.float32, "n"], by: float = 2.0) -> TensorOutput[np.float32, "n"]:
    return x * np.float32(by)

@app.model
def halves(x: list[float]) -> list[float]:
    return [each / 2 for each in x]

@app.model
async def count(n: int) -> AsyncIterator[int]:
    for i in range(n):
        if i == 3:
            raise Refused("three is enough")
        yield i
"""


@pytest.fixture(scope="module")
def app(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("blazerpc")
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder / "app.py")
    yield running
    assert running.stop() == 0, running.text()


async def test_predict(app: Running) -> None:
    async with blazerpc.JsonRpcClient(f"{app.url}/jsonrpc") as client:
        assert await client.predict("add", a=1) == 2
        assert await client.predict("halves", x=[1, 2.5]) == [0.5, 1.25]
        array = await client.predict("scale", x=np.array([1, 2], np.float32))
        assert (array.dtype, array.tolist()) == (np.float32, [2.0, 4.0])
        for name, values in (("add", {"a": "x"}), ("add", {"a": 1, "c": 1}), ("nobody", {})):
            with pytest.raises(BlazeRPCError, match="JSON-RPC error -3260"):
                await client.predict(name, **values)


async def test_streams(app: Running) -> None:
    async with blazerpc.JsonRpcClient(f"{app.url}/jsonrpc") as client:
        assert [item async for item in client.stream("count", n=3)] == [0, 1, 2]
        for name, values, text in (
            ("count", {"n": 9}, "three is enough"),
            ("count", {"m": 1}, "no argument"),
            ("nobody", {}, "not found"),
        ):
            with pytest.raises(BlazeRPCError, match=text):
                [item async for item in client.stream(name, **values)]


# Of inferstream's names, because where BlazeRPC is installed its own names are not ours.
CLASSIC = """
import asyncio
import os
import numpy as np
from inferstream import App, Refused, TensorInput, TensorOutput

app = App(service="blazerpc.InferenceService", classic=True)

@app.model("generate", streaming=True)
async def generate(prompt: str) -> str:
    try:
        for n in range(100_000):
            await asyncio.sleep(0.001)
            yield f"{prompt}{n}"
    finally:
        with open(os.environ["TEST_LOG"], "a") as log:
            print("finally", prompt, file=log, flush=True)

@app.model("count", streaming=True)
def count(n: int) -> int:
    for i in range(n):
        yield i

@app.model("my-types")
def my_types(text: str, n: int, share: float, on: bool, raw: bytes, xs: list[float], words: list[str]) -> str:
    return repr((text, n, share, on, raw, xs, words))

@app.model("scale")
def scale(x: TensorInput[np.float32, "batch", 2]) -> TensorOutput[np.float32, "batch", 2]:
    return x * 2

@app.model("refuses")
def refuses(how: str) -> str:
    if how == "status":
        raise Refused("not you")
    raise ValueError("secret")
"""


@pytest.fixture(scope="module")
def classic(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("classic")
    (folder / "app.py").write_text(CLASSIC)
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder / "app.py")
    yield running
    assert running.stop() == 0, running.text()


def client(classic: Running) -> BlazeClient:
    """A client that knows the same functions from an app of BlazeRPC."""
    theirs = BlazeApp()
    pairs, doubled = TensorInput[np.float32, "batch", 2], TensorOutput[np.float32, "batch", 2]

    @theirs.model("generate", streaming=True)
    async def generate(prompt: str) -> str: ...
    @theirs.model("count", streaming=True)
    def count(n: int) -> int: ...
    @theirs.model("my-types")
    def my_types(
        text: str, n: int, share: float, on: bool, raw: bytes, xs: list[float], words: list[str]
    ) -> str: ...
    @theirs.model("scale")
    def scale(x: pairs) -> doubled: ...
    @theirs.model("refuses")
    def refuses(how: str) -> str: ...

    return BlazeClient("127.0.0.1", classic.grpc_port, registry=theirs.registry)


async def test_typed_calls(classic: Running) -> None:
    values = {
        "text": "grüße", "n": -5, "share": 0.5, "on": True, "raw": b"\xff", "xs": [1.5, -2.0], "words": ["a", "b"],
    }  # fmt: skip
    async with client(classic) as calls:
        assert await calls.predict("my-types", **values) == repr(tuple(values.values()))
        empty = repr(("", 0, 0.0, False, b"", [], []))
        assert await calls.predict("my-types") == empty
        array = np.arange(4, dtype=np.float32).reshape(2, 2)
        # The client itself makes no message of an array.
        sent = TensorProto(shape=[2, 2], dtype="float", data=array.tobytes())
        result = await calls.predict("scale", x=sent)
        assert (result.shape, result.dtype) == ([2, 2], "float")
        assert np.frombuffer(result.data, np.float32).tolist() == [0, 2, 4, 6]


async def test_typed_streams(classic: Running) -> None:
    async with client(classic) as calls:
        assert [item async for item in calls.stream("count", n=4)] == [0, 1, 2, 3]
        seen = []
        stream = calls.stream("generate", prompt="left")
        async for item in stream:
            seen.append(item)
            if len(seen) == 3:
                break
        await stream.aclose()
        assert seen == ["left0", "left1", "left2"]
    eventually(lambda: classic.noted("finally left"))


async def test_typed_errors(classic: Running) -> None:
    async with client(classic) as calls:
        for model, values, status in (
            ("refuses", {"how": "status"}, Status.PERMISSION_DENIED),
            ("refuses", {"how": "x"}, Status.INTERNAL),
            ("scale", {"x": TensorProto(shape=[2], dtype="float", data=bytes(8))}, Status.INVALID_ARGUMENT),
        ):
            with pytest.raises(GRPCError) as refused:
                await calls.predict(model, **values)
            assert refused.value.status is status
            assert "secret" not in str(refused.value.message)
