"""`Client` and `AsyncClient` against a running server, over REST and gRPC, with and without workers."""

import asyncio
import importlib.util
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from inferstream import App, AsyncClient, Client
from inferstream.errors import CallFailed, CallTimedOut, ConnectionFailed
from tests.client_app import Color, Parts, Point, User, app
from tests.serving import SERVER, Running, eventually, write_model

ROOT = Path(__file__).parents[2]
WITHIN = 5.0
"""Seconds within which the `finally` of a model has run; far fewer on a machine that is not busy."""


def write_app(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return shutil.copy(ROOT / "tests" / "client_app.py", folder / "client_app.py")


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    file = write_app(tmp_path_factory.mktemp("served") / "app")
    running = Running(file, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


def address(running: Running, transport: str) -> str:
    return running.url if transport == "rest" else f"grpc://{running.grpc}"


@pytest.fixture(params=["rest", "grpc"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def client(served: Running, transport: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(address(served, transport), timeout=30) as found:
        yield found


@pytest.fixture
async def typed(served: Running, transport: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(address(served, transport), timeout=30, app=app) as found:
        yield found


async def test_values_from_metadata(client: AsyncClient) -> None:
    assert await client.predict("add", a=1, b=2) == 3
    assert await client.predict("add", a=1) == 2
    scaled = await client.predict("scale", x=np.array([[1, 2, 3]]), by=2)
    assert (scaled.dtype, scaled.tolist()) == (np.float32, [[2, 4, 6]])
    when = datetime(2024, 5, 6)  # noqa: DTZ001
    assert await client.predict("shift", point={"x": 1}, mode="down", at=when) == {"x": 2, "y": -1}
    assert await client.predict("other", color="red") == "blue"
    assert await client.predict("parts", text="a b c") == {"head": "a", "rest": ["b", "c"]}
    assert await client.predict("greet-all", users=[User(name="ü")], move={"by": 1}) == "['ü'] 1"
    assert await client.predict("reverse", data=b"abc") == b"cba"
    assert await client.predict("reverse", data=b"\xff\x00", many=[b"a", b"\xfe"]) == b"\x00\xffa\xfe"
    assert await client.predict("nothing") is None


async def test_app_values_follow_annotations(typed: AsyncClient) -> None:
    assert await typed.predict("shift", point=Point(1), color=Color.BLUE) == Point(11, 1)
    assert await typed.predict("other", color=Color.BLUE) is Color.RED
    assert await typed.predict("parts", text="a b") == Parts("a", ["b"])
    assert [item async for item in typed.stream("blocking", n=2)] == [Point(0), Point(1)]


async def test_streams_of_every_kind(client: AsyncClient) -> None:
    assert [item async for item in client.stream("generate", prompt="a", n=3)] == ["a 0", "a 1", "a 2"]
    assert [item async for item in client.stream("blocking", n=2)] == [{"x": 0, "y": 0}, {"x": 1, "y": 0}]
    assert [item async for item in client.stream("tokens", prompt="a")] == ["a"]
    assert [item async for item in client.stream("count", to=3)] == [1, 2, 3]
    assert [item async for item in client.stream("add", a=1)] == [2]
    assert [item async for item in client.stream("generate", prompt="a", n=0)] == []


async def test_bidirectional_stream(client: AsyncClient) -> None:
    sums: list[int] = []
    came = asyncio.Condition()

    async def values() -> AsyncIterator[int]:
        """The next value leaves only after the last sum has come."""
        for number in range(5):
            async with came:
                await came.wait_for(lambda number=number: len(sums) == number)
            yield number

    async for item in client.stream("total", n=values(), start=10):
        async with came:
            sums.append(item)
            came.notify_all()
    assert sums == [10, 11, 13, 16, 20]
    assert await client.predict("summed", n=[1, 2, 3]) == 6


async def test_server_metadata(client: AsyncClient) -> None:
    assert {"add", "generate", "greet-all"} <= {*await client.models()}
    assert await client.ready()
    assert await client.ready("add")
    assert not await client.ready("none")
    assert [tensor.name for tensor in (await client.metadata("add")).inputs] == ["a", "b"]


@pytest.mark.parametrize(
    ("model", "arguments", "status", "says"),
    [
        ("none", {}, 404, "Model none not found"),
        ("refuses", {"status": 429}, 429, "not today"),
        ("shift", {"point": {"y": 1}}, 400, 'argument "point": field "x"'),
        ("generate", {"prompt": "a"}, 501, "call it as a stream"),
    ],
)
async def test_failure_has_status_and_message(
    client: AsyncClient, model: str, arguments: dict, status: int, says: str
) -> None:
    with pytest.raises(CallFailed) as caught:
        await client.predict(model, arguments)
    error = caught.value
    assert (error.status, type(error), error.__cause__) == (status, CallFailed, None)
    assert says in error.message


async def test_mid_stream_failure_follows_its_items(client: AsyncClient) -> None:
    found = []
    with pytest.raises(CallFailed, match="broken"):
        async for item in client.stream("generate", prompt="failing", n=2, fail=True):
            found.append(item)
    assert found == ["failing 0", "failing 1"]
    with pytest.raises(CallFailed, match="not found"):
        await anext(client.stream("none"))


async def test_failing_request_iterator_ends_call_with_its_error(
    client: AsyncClient, served: Running
) -> None:
    async def values() -> AsyncIterator[int]:
        yield 1000
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        [item async for item in client.stream("total", n=values())]
    with pytest.raises(TypeError, match='argument "n" takes an integer'):
        [item async for item in client.stream("total", n=iter([1, "x"]))]


@pytest.mark.parametrize("how", ["break", "raise", "cancel", "close"])
async def test_cancelled_stream_ends_model(
    client: AsyncClient, served: Running, transport: str, how: str
) -> None:
    name = f"{how} {transport}"
    started = asyncio.Event()

    async def read() -> None:
        stream = client.stream("generate", prompt=name, n=100_000, pause=0.01)
        async for _ in stream:
            started.set()
            if how == "raise":
                raise KeyError
            if how != "cancel":
                break
        if how == "close":
            await stream.aclose()

    reading = asyncio.create_task(read())
    await started.wait()
    if how == "cancel":
        reading.cancel()
    await asyncio.wait([reading])
    assert how != "raise" or isinstance(reading.exception(), KeyError)
    del reading  # its traceback holds the stream
    await asyncio.to_thread(eventually, lambda: served.noted(f"ended {name}"), WITHIN)


async def test_cancelled_bidirectional_stream_ends_model(
    client: AsyncClient, served: Running, transport: str
) -> None:
    start = {"rest": 500, "grpc": 700}[transport]

    async def values() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async for item in client.stream("total", n=values(), start=start):
        assert item == start + 1
        break
    await asyncio.to_thread(eventually, lambda: served.noted(f"ended total {start + 1}"), WITHIN)


async def test_timeout_ends_model(client: AsyncClient, served: Running, transport: str) -> None:
    with pytest.raises(CallTimedOut) as caught:
        await client.predict("slow", name=f"late {transport}", timeout=0.5)
    assert caught.value.status == 504
    await asyncio.to_thread(eventually, lambda: served.noted(f"ended late {transport}"), WITHIN)
    found = []
    with pytest.raises(CallTimedOut):
        async for item in client.stream(
            "generate", prompt=f"long {transport}", n=100_000, pause=0.01, timeout=1
        ):
            found.append(item)
    assert found
    await asyncio.to_thread(eventually, lambda: served.noted(f"ended long {transport}"), WITHIN)


async def test_bidirectional_stream_timeout_ends_model(
    client: AsyncClient, served: Running, transport: str
) -> None:
    start = {"rest": 1500, "grpc": 1700}[transport]
    with pytest.raises(CallTimedOut):
        async for _ in client.stream("total", n=never_ending(), start=start, timeout=0.5):
            pass
    await asyncio.to_thread(eventually, lambda: served.noted(f"ended total {start + 1}"), WITHIN)


async def test_stream_to_missing_model_fails_at_once(served: Running, transport: str) -> None:
    other = App()

    @other.model
    async def missing(n: AsyncIterator[int]) -> int:
        raise NotImplementedError

    async with AsyncClient(address(served, transport), app=other) as client:
        for _ in range(20):
            with pytest.raises(CallFailed) as caught:
                await client.predict("missing", n=asynchronous(*range(20)))
            assert caught.value.status == 404
            assert caught.value.message.startswith("Model missing not found; there are models add, ")


async def test_model_can_end_stream_before_client(client: AsyncClient) -> None:
    for _ in range(20):
        assert [item async for item in client.stream("first", n=asynchronous(*range(20)))] == [0]


async def test_call_refused_by_full_queue_is_retried(served: Running, transport: str) -> None:
    async def at_once(retries: int) -> list[object]:
        async with AsyncClient(address(served, transport), app=app, retries=retries) as client:
            calls = (client.predict("narrow", pause=0.5) for _ in range(3))
            return await asyncio.gather(*calls, return_exceptions=True)

    [refused] = [found for found in await at_once(0) if found is not True]
    assert (refused.status, refused.retry_after) == (429, 1.0)
    assert await at_once(4) == [True, True, True]


async def test_many_concurrent_calls_and_streams(client: AsyncClient) -> None:
    async def streamed(number: int) -> list[str]:
        return [item async for item in client.stream("generate", prompt=str(number), n=3)]

    calls = asyncio.gather(*(client.predict("add", a=number) for number in range(200)))
    streams = asyncio.gather(*(streamed(number) for number in range(60)))
    assert await calls == [number + 1 for number in range(200)]
    assert await streams == [[f"{number} {index}" for index in range(3)] for number in range(60)]


def test_threads_share_a_client(served: Running, transport: str) -> None:
    found: list[int] = []
    with Client(address(served, transport), timeout=30) as client:

        def call(first: int) -> None:
            for number in range(first, first + 10):
                found.append(client.predict("add", a=number, b=0))
                assert list(client.stream("count", to=2)) == [1, 2]

        threads = [threading.Thread(target=call, args=(10 * index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(found) == list(range(40))


def test_blocking_client_streams_and_cancels(served: Running, transport: str) -> None:
    with Client(address(served, transport), timeout=30) as client:
        assert list(client.stream("total", n=(number for number in range(4)))) == [0, 1, 3, 6]
        for item in client.stream("generate", prompt=f"blocking {transport}", n=100_000, pause=0.01):
            assert item == f"blocking {transport} 0"
            break
        eventually(lambda: served.noted(f"ended blocking {transport}"), WITHIN)
        with pytest.raises(TypeError, match='"a" is missing'):
            client.predict("add")


async def test_killed_server_and_its_successor(
    start: Callable[..., Running], tmp_path: Path, transport: str
) -> None:
    file = write_app(tmp_path / "app")
    first = start(file)
    async with AsyncClient(address(first, transport), timeout=20) as client:
        assert await client.predict("add", a=1) == 2
        streams = [client.stream("generate", prompt="p", n=1000, pause=0.05)]
        streams.append(client.stream("total", n=never_ending()))
        for stream in streams:
            await anext(stream)
        pending = asyncio.create_task(client.predict("slow", name="p"))
        await asyncio.sleep(0)
        first.process.kill()
        for stream in streams:
            with pytest.raises(ConnectionFailed):
                async for _ in stream:
                    pass
        with pytest.raises(ConnectionFailed):
            await pending
        first.process.wait()
        # What a dying connection still took may have arrived. After it nothing can.
        for _ in range(20):
            with pytest.raises(ConnectionFailed) as caught:
                await client.predict("add", a=1)
            if caught.value.unreachable:
                break
        assert caught.value.unreachable
        file.write_text(
            file.read_text()
            .replace("def add(a: int, b: int = 1)", "def add(b: int, c: int = 5)")
            .replace("a + b", "b + c")
        )
        ports = ["--http-port", str(first.http_port), "--grpc-port", str(first.grpc_port)]
        start(file, *ports)
        # The metadata that the client knows are those of the first server.
        assert await client.predict("add", b=1) == 6
        assert [item async for item in client.stream("count", to=1)] == [1]


async def never_ending() -> AsyncIterator[int]:
    yield 1
    await asyncio.Event().wait()


async def test_unreachable_server(transport: str) -> None:
    url = "http://127.0.0.1:1" if transport == "rest" else "grpc://127.0.0.1:1"
    async with AsyncClient(url, retries=1, app=app) as client:
        for call in (
            client.predict("add", a=1),
            client.ready(),
            client.models(),
            anext(client.stream("count", to=1)),
        ):
            with pytest.raises(ConnectionFailed) as caught:
                await call
            assert caught.value.unreachable
        with pytest.raises(TypeError, match='argument "a" takes an integer'):  # before anything is sent
            await client.predict("add", a="x")


@pytest.fixture(scope="module")
def classes(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("classes") / "models"
    for name in ("running-sum", "text-stream", "numpy-typed", "iris"):
        shutil.copytree(ROOT / "examples" / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    write_model(folder, "echo", "faulty_models.Echo", name="echo")
    running = Running(folder, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


async def test_class_models_from_metadata(classes: Running, transport: str) -> None:
    async with AsyncClient(address(classes, transport), timeout=30) as client:
        flowers = [[5.1, 3.5, 1.4, 0.2], [6.3, 2.9, 5.6, 1.8]]
        found = await client.predict("iris", features=flowers)
        assert found["predict"].tolist() in ([[0], [2]], [0, 2])
        assert found["predict_proba"].shape == (2, 3)
        sums = [item.tolist() async for item in client.stream("running-sum", value=iter([[1.0], [2.0, 3.0]]))]
        assert sums in ([[1.0], [6.0]], [[[1.0]], [[6.0]]])
        words = [word async for word in client.stream("text-model", prompt="three words here")]
        assert words == ["three", " words", " here"]
        prompt = {"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["one"]}
        streamed = classes.infer("text-model", {"inputs": [prompt]}, "infer_stream").text
        assert '"shape":[1],' in streamed  # as it declares
        scaled = await client.predict("scaler", values=np.ones((1, 2), np.float32), labels=["a"])
        assert sorted(map(str, scaled)) == ["output-0", "output-1"]
        assert scaled["output-1"] in ("a: 4", ["a: 4"])
        assert (await client.predict("echo", x=np.array([1.0, 2.0]))).tolist() == [1.0, 2.0]
        with pytest.raises(TypeError, match='"features" is missing'):
            await client.predict("iris")


async def test_stub_has_app_types(served: Running, transport: str, tmp_path: Path) -> None:
    command = [*SERVER, "stub", str(served.folder), "--output", str(tmp_path / "stub.py")]
    await asyncio.to_thread(subprocess.run, command, check=True, timeout=60)
    spec = importlib.util.spec_from_file_location("stub_of_app", tmp_path / "stub.py")
    stub = sys.modules["stub_of_app"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stub)
    async with stub.AsyncApp(address(served, transport)) as models:
        assert await models.add(1, b=3) == 4
        assert await models.shift(stub.Point(1), stub.Color.BLUE) == stub.Point(11, 1)
        assert await models.parts("a b") == stub.Parts("a", ["b"])
        assert [item async for item in models.generate("a", n=2)] == ["a 0", "a 1"]
        assert [item async for item in models.total(asynchronous(1, 2), start=4)] == [5, 7]
        assert await models.summed(asynchronous(1, 2)) == 3
        with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
            await models.add(1, c=2)
    with stub.App(address(served, transport)) as models:
        assert models.other(stub.Color.BLUE) is stub.Color.RED
        assert list(models.total(iter([1, 2]))) == [1, 3]
        assert [*models.blocking(1)] == [stub.Point(0)]
        with pytest.raises(ValueError, match="takes one of 'red', 'blue'"):
            models.other("green")


async def asynchronous(*values: int) -> AsyncIterator[int]:
    for value in values:
        yield value
