"""BlazeRPC's own client of JSON-RPC against a running server."""

import json
from collections.abc import Iterator

import numpy as np
import pytest

blazerpc = pytest.importorskip("blazerpc.jsonrpc_client", exc_type=ImportError)

from blazerpc.exceptions import BlazeRPCError

from tests.serving import Running

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
