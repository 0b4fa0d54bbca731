"""Programs written for BlazeRPC, as they are: its documentation's code, its clients, its middleware."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest

from inferstream import compat
from tests.serving import Running, eventually, metric

compat.install()

from blazerpc import BlazeClient, JsonRpcClient, ModelNotFoundError, ValidationError  # type: ignore[import-not-found]
from blazerpc.runtime.registry import ModelRegistry  # type: ignore[import-not-found]
from grpclib import GRPCError, Status  # type: ignore[import-not-found]

# The first two functions are those of BlazeRPC's page about streaming, and the client below is too.
DOCUMENT = """
import asyncio
from blazerpc import BlazeApp

app = BlazeApp()

@app.model("generate", streaming=True)
async def generate_tokens(prompt: str) -> str:
    tokens = run_my_llm(prompt)
    for token in tokens:
        await asyncio.sleep(0)  # yield control to the event loop
        yield token

def run_my_llm(prompt):
    return [f"{word} " for word in prompt.split()]
"""

CLIENT = """
import asyncio, sys
import inferstream.compat; inferstream.compat.install()
from app import app

async def main():
    from blazerpc import BlazeClient

    async with BlazeClient("127.0.0.1", int(sys.argv[1]), registry=app.registry) as client:
        async for token in client.stream("generate", prompt="Tell me about gRPC"):
            print(token, end="", flush=True)

asyncio.run(main())
"""

APP = (
    DOCUMENT
    + """
import os
import threading
import time
from types import SimpleNamespace
import numpy as np
from blazerpc import Context, Depends, TensorInput, TensorOutput, ValidationError
from grpclib import GRPCError, Status

def note(*words):
    with open(os.environ["TEST_LOG"], "a") as log:
        print(*words, file=log, flush=True)

model = SimpleNamespace()

async def steps(prompt):
    n = 0
    while True:
        await asyncio.sleep(0.01)
        yield f"{prompt}{n}"
        n += 1

model.generate = steps

@app.model("cleanup", streaming=True)
async def cleanup(prompt: str) -> str:
    try:
        async for token in model.generate(prompt):
            yield token
    except asyncio.CancelledError:
        note("cancelled", prompt)
        raise
    finally:
        note("finally", prompt)

@app.model("blocking", streaming=True)
def blocking(n: int) -> int:
    for i in range(n):
        time.sleep(0.005)
        yield i

@app.model("listed", streaming=True)
def listed(n: int) -> list[float]:
    return [[float(i)] for i in range(n)]

@app.model("scale")
def scale(x: TensorInput[np.float32, "batch", 2], y: TensorInput[np.float32, "batch", 2]) -> TensorOutput[np.float32, "batch", 2]:
    note("rows", len(x))
    return x * y

@app.model("free")
def free(image):
    return image * 2

@app.model("whole")
def whole(image: np.ndarray) -> np.ndarray:
    return image[::-1]

@app.model("my-types")
async def my_types(text: str, n: int, share: float, on: bool, raw: bytes, xs: list[float], words: list[str]) -> str:
    return repr((text, n, share, on, raw, xs, words))

@app.model("optional")
def optional(n: int, by: int = 3) -> int:
    return n * by

app.state.users = {"tok": "ann"}

def get_user(ctx: Context):
    return ctx.app_state.users.get(ctx.metadata.get("authorization"))

async def get_path(ctx):
    return ctx.method

@app.model("who")
async def who(ctx: Context, greeting: str, user=Depends(get_user), path: str = Depends(get_path)) -> list[str]:
    return [greeting, str(user), path, str(ctx.peer.addr() is not None)]

@app.model("refuses")
def refuses(how: str) -> str:
    if how == "invalid":
        raise ValidationError("not this", field="how")
    if how == "grpc":
        raise GRPCError(Status.PERMISSION_DENIED, "not you")
    raise RuntimeError("secret")

@app.model("versioned")
def first(n: int) -> int:
    return n

@app.model("versioned", version="2")
def second(n: int) -> int:
    return n * 10
"""
)


@pytest.fixture(scope="module", params=[0, 2], ids=["in process", "workers"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("blazerpc")
    (folder / "app.py").write_text(APP)
    running = Running(folder / "app.py", "--workers", str(request.param), "--transport", "both")
    assert len(running.workers()) >= request.param
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def client(app: Running) -> BlazeClient:
    """A client whose registry has functions of its own, with the annotations of the server's."""
    registry = ModelRegistry()

    async def stream(prompt: str) -> str:
        yield prompt

    async def numbers(n: int) -> int:
        yield n

    async def lists(n: int) -> list[float]:
        yield [n]

    def number(n: int) -> int: ...
    def optional(n: int, by: int = 3) -> int: ...
    def free(image): ...
    def refuses(how: str) -> str: ...
    def who(greeting: str) -> list[str]: ...
    def my_types(
        text: str, n: int, share: float, on: bool, raw: bytes, xs: list[float], words: list[str]
    ) -> str: ...

    for name, function in (
        ("generate", stream), ("cleanup", stream), ("blocking", numbers), ("listed", lists),
        ("free", free), ("whole", free), ("my-types", my_types), ("optional", optional),
        ("who", who), ("refuses", refuses), ("versioned", number), ("absent", number),
    ):  # fmt: skip
        registry.register(
            name, "1", function, streaming=name in ("generate", "cleanup", "blocking", "listed")
        )
    return BlazeClient("127.0.0.1", app.grpc_port, registry=registry)


def test_documented_client(app: Running, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(DOCUMENT)
    (tmp_path / "client.py").write_text(CLIENT)
    ran = subprocess.run(
        [sys.executable, "client.py", str(app.grpc_port)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert ran.stdout == "Tell me about gRPC "


def test_the_banner_marks_streams(app: Running) -> None:
    lines = {line.split()[0]: line.split()[1:] for line in app.text().splitlines() if line.endswith("ready")}
    assert lines["generate"][:2] == ["1", "stream"]
    assert lines["scale"][:2] == ["1", "predict"]


async def test_streams(client: BlazeClient) -> None:
    async with client:
        assert [item async for item in client.stream("generate", prompt="a b")] == ["a ", "b "]
        assert [item async for item in client.stream("blocking", n=4)] == [0, 1, 2, 3]
        assert [item async for item in client.stream("listed", n=2)] == [[0.0], [1.0]]


async def test_cancelled_stream_ends_model(app: Running, client: BlazeClient) -> None:
    prompt = f"{id(client)}-"
    seen = []
    async with client:
        async for item in client.stream("cleanup", prompt=prompt):
            seen.append(item)
            if len(seen) == 3:
                break
        assert seen == [f"{prompt}{n}" for n in range(3)]
        await asyncio.to_thread(eventually, lambda: app.noted(f"finally {prompt}"))
    assert app.noted(f"cancelled {prompt}")


async def test_values_of_every_type(client: BlazeClient) -> None:
    values = {
        "text": "grüße", "n": -(2**40), "share": 0.5, "on": True, "raw": b"\xff\0", "xs": [1.5, -2], "words": ["", "b"],
    }  # fmt: skip
    async with client:
        assert await client.predict("my-types", **values) == repr(
            ("grüße", -(2**40), 0.5, True, b"\xff\0", [1.5, -2.0], ["", "b"])
        )
        nothing = {"text": "", "n": 0, "share": 0.0, "on": False, "raw": b"", "xs": [], "words": []}
        assert await client.predict("my-types", **nothing) == repr(tuple(nothing.values()))


async def test_omitted_argument_uses_default(client: BlazeClient) -> None:
    async with client:
        assert await client.predict("optional", n=2) == 6
        assert await client.predict("optional", n=2, by=0) == 0


async def test_arrays_without_annotation(client: BlazeClient) -> None:
    async with client:
        for dtype in (np.float32, np.float64, np.int64, np.uint32):
            doubled = await client.predict("free", image=np.arange(6, dtype=dtype).reshape(2, 3))
            assert (doubled.dtype, doubled.tolist()) == (dtype, [[0, 2, 4], [6, 8, 10]])
        assert (await client.predict("whole", image=np.array([1, 2]))).tolist() == [2, 1]


def test_context_and_dependencies(app: Running) -> None:
    url = f"{app.url}/v2/models/who/generate"
    response = httpx.post(url, json={"greeting": "hi"}, headers={"authorization": "tok"})
    path = "/blazerpc.InferenceService/PredictWho"
    assert response.json()["output"] == ["hi", "ann", path, str(not app.workers())]
    # In chunks, it goes through uvicorn's cycle.
    chunks = httpx.post(url, content=iter([b'{"greeting":', b' "hi"}'])).json()["output"]
    assert chunks == ["hi", "None", path, str(not app.workers())]


async def test_peer_address_is_available_on_port_sockets(app: Running, client: BlazeClient) -> None:
    async with client:
        found = await client.predict("who", greeting="hi")
    assert found[:3] == ["hi", "None", "/blazerpc.InferenceService/PredictWho"]
    assert found[3] == str(not app.workers())


async def test_errors_have_status_and_class(client: BlazeClient) -> None:
    async with client:
        with pytest.raises(ValidationError, match="not this") as invalid:
            await client.predict("refuses", how="invalid")
        assert (invalid.value.status, invalid.value.message) == (Status.INVALID_ARGUMENT, "not this")
        with pytest.raises(GRPCError, match="not you") as refused:
            await client.predict("refuses", how="grpc")
        assert refused.value.status is Status.PERMISSION_DENIED
        with pytest.raises(GRPCError) as failed:
            await client.predict("refuses", how="otherwise")
        assert failed.value.status is Status.INTERNAL
        assert "secret" not in failed.value.message
        with pytest.raises(ModelNotFoundError):
            await client.predict("absent", n=1)
        with pytest.raises(TypeError, match='"m" is no argument'):
            await client.predict("optional", m=1)


async def test_closed_client_reconnects(client: BlazeClient) -> None:
    for _ in range(2):
        assert await client.predict("optional", n=2) == 6
        client.close()
    async with client:
        assert await client.predict("optional", n=2) == 6
    await asyncio.to_thread(client.close)  # nothing is open


async def test_types_come_from_server_without_registry(app: Running) -> None:
    async with BlazeClient("127.0.0.1", app.grpc_port) as client:
        assert await client.predict("optional", n=2) == 6
        assert [item async for item in client.stream("generate", prompt="a b")] == ["a ", "b "]


async def test_unreachable_server_is_connection_error() -> None:
    async with BlazeClient("127.0.0.1", 1, registry=ModelRegistry()) as client:
        client._registry.register("m", "1", lambda x: x)
        with pytest.raises(ConnectionError):
            await client.predict("m", x=np.zeros(1))


def test_versions_are_routed(app: Running) -> None:
    for path, wanted in (("", 70), ("/versions/1", 7), ("/versions/2", 70)):
        response = httpx.post(f"{app.url}/v2/models/versioned{path}/generate", json={"n": 7})
        assert response.json()["output"] == wanted


async def test_a_typed_call_gets_the_newest_version(client: BlazeClient) -> None:
    async with client:
        assert await client.predict("versioned", n=7) == 70


async def test_json_rpc_client(app: Running) -> None:
    async with JsonRpcClient(f"{app.url}/jsonrpc") as client:
        assert await client.predict("optional", n=2) == 6
        product = await client.predict(
            "scale", x=np.ones((1, 2), np.float32), y=np.full((1, 2), 3, np.float32)
        )
        assert product.tolist() == [[3, 3]]
        assert [item async for item in client.stream("generate", prompt="a b")] == ["a ", "b "]
        with pytest.raises(Exception, match="JSON-RPC error -32601"):
            await client.predict("absent")
        with pytest.raises(Exception, match="Stream error"):
            [item async for item in client.stream("generate", wrong=1)]


async def test_array_requests_run_as_one_batch(app: Running) -> None:
    """A request that finds no batch running leaves alone, so a batch of all is not to be had by force."""
    before = app.log.read_text().count("rows ")
    async with JsonRpcClient(f"{app.url}/jsonrpc") as client:
        ones = [np.full((1, 2), n, np.float32) for n in range(64)]
        found = await asyncio.gather(*(client.predict("scale", x=x, y=ones[2]) for x in ones))
    assert [array.tolist() for array in found] == [[[2 * n, 2 * n]] for n in range(64)]
    assert 1 <= app.log.read_text().count("rows ") - before < 64


MIDDLEWARE = """
import os
from blazerpc import BlazeApp
from blazerpc.server.middleware import (
    ExceptionMiddleware, LoggingMiddleware, MetricsMiddleware, Middleware, OTelMetricsMiddleware, TransportMiddleware,
)
from grpclib import GRPCError, Status

def note(*words):
    with open(os.environ["TEST_LOG"], "a") as log:
        print(*words, file=log, flush=True)

class AuthMiddleware(Middleware):
    async def on_request(self, event):
        token = dict(event.metadata).get("authorization")
        if not token:
            raise GRPCError(Status.UNAUTHENTICATED, "Missing token")

    async def on_response(self, event):
        note("auth saw", event.method_name, event.status.name)

class Mapping(ExceptionMiddleware):
    statuses = {ValueError: Status.INVALID_ARGUMENT}

class Everywhere(TransportMiddleware):
    async def on_request(self, info):
        note("began", info.method, info.transport)

    async def on_response(self, info):
        note("ended", info.status, info.transport)

app = BlazeApp(
    middleware=[
        Everywhere(), AuthMiddleware(), Mapping(), LoggingMiddleware(), MetricsMiddleware(), OTelMetricsMiddleware(),
    ],
)

@app.model("half")
def half(n: int) -> int:
    if n % 2:
        raise ValueError("odd")
    return n // 2

@app.model("count", streaming=True)
async def count(n: int) -> int:
    for i in range(n):
        yield i
"""


@pytest.fixture(scope="module", params=["1", "2"], ids=["one front end", "two front ends"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "app.py").write_text(MIDDLEWARE)
    (folder / "settings.json").write_text(json.dumps({"frontends": int(request.param)}))
    running = Running(folder / "app.py")
    yield running
    assert running.stop() == 0, running.text()


def test_middleware_runs_for_every_transport(guarded: Running) -> None:
    path = "/blazerpc.InferenceService/PredictHalf"
    with grpc.insecure_channel(guarded.grpc) as channel:
        half = channel.unary_unary(path)
        with pytest.raises(grpc.RpcError) as refused:
            half(b"\x08\x04", timeout=20)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert refused.value.details() == "Missing token"
        known = (("authorization", "me"),)
        assert half(b"\x08\x04", metadata=known, timeout=20) == b"\x08\x02"
        with pytest.raises(grpc.RpcError) as odd:
            half(b"\x08\x03", metadata=known, timeout=20)
        assert (odd.value.code(), odd.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "odd")
        count = channel.unary_stream("/blazerpc.InferenceService/PredictCount")
        assert len([*count(b"\x08\x03", metadata=known, timeout=20)]) == 3
    url = f"{guarded.url}/v2/models/half/generate"
    assert httpx.post(url, json={"n": 2}).status_code == 401
    assert httpx.post(url, json={"n": 2}, headers={"authorization": "me"}).json()["output"] == 1
    for status in ("UNAUTHENTICATED", "OK", "INVALID_ARGUMENT"):
        assert guarded.noted(f"auth saw {path} {status}")
    eventually(lambda: guarded.noted("auth saw /blazerpc.InferenceService/PredictCount OK"))
    log = guarded.log.read_text().splitlines()
    assert log[0].startswith(f"began {path} ")
    assert {"ended 401", "ended 200", "ended 400"} <= {" ".join(line.split()[:2]) for line in log}
    assert f"RPC request: {path} from ipv4:127.0.0.1:" in guarded.text()
    assert f"RPC response: {path} status=INVALID_ARGUMENT message=odd" in guarded.text()


def test_middleware_counts_calls(guarded: Running) -> None:
    labels = {"method": "/blazerpc.InferenceService/PredictHalf", "status": "16"}

    def counted() -> float:
        page = httpx.get(f"http://127.0.0.1:{guarded.metrics_port}/metrics").text
        assert metric(page, "blazerpc_request_duration_seconds_count", method=labels["method"]) >= metric(
            page, "blazerpc_requests_total", **labels
        )
        return metric(page, "blazerpc_requests_total", **labels)

    before = counted()
    httpx.post(f"{guarded.url}/v2/models/half/generate", json={"n": 2})
    eventually(lambda: counted() == before + 1)


IRIS = """
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from blazerpc import BlazeApp, TensorInput, TensorOutput

# Train a model (in production, load from disk)
iris = load_iris()
clf = LogisticRegression(max_iter=200)
clf.fit(iris.data, iris.target)

app = BlazeApp()

@app.model("iris")
def predict_iris(
    features: TensorInput[np.float32, "batch", 4],
) -> TensorOutput[np.float32, "batch", 3]:
    \"\"\"Classify iris flowers. Returns class probabilities.\"\"\"
    probs = clf.predict_proba(features).astype(np.float32)
    return probs
"""

IRIS_CLIENT = """
import asyncio, sys
import inferstream.compat; inferstream.compat.install()
import numpy as np
from blazerpc import BlazeClient
from app import app

async def main():
    async with BlazeClient("127.0.0.1", int(sys.argv[1]), registry=app.registry) as client:
        samples = np.array([[5.1, 3.5, 1.4, 0.2]], dtype=np.float32)
        probs = await client.predict("iris", features=samples)
        print(probs.shape, probs.dtype, probs.argmax(), float(probs.sum()))

asyncio.run(main())
"""


def test_the_first_example(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    (tmp_path / "app.py").write_text(IRIS)
    (tmp_path / "client.py").write_text(IRIS_CLIENT)
    running = Running(tmp_path / "app.py")
    try:
        command = [sys.executable, "client.py", str(running.grpc_port)]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        shape, dtype, best, total = ran.stdout.rsplit(maxsplit=3)
        assert (shape, dtype, best) == ("(1, 3)", "float32", "0")
        assert float(total) == pytest.approx(1)
    finally:
        assert running.stop() == 0, running.text()


SERVES = """
import asyncio, sys
import inferstream.compat; inferstream.compat.install()
from blazerpc import BlazeApp

app = BlazeApp()

@app.model("echo")
def echo(text: str) -> str:
    return text

asyncio.run(getattr(app, sys.argv[1])("127.0.0.1", *map(int, sys.argv[2:])))
print("served", flush=True)
"""


@pytest.mark.parametrize(
    ("method", "ports"), [("serve", 1), ("serve_jsonrpc", 1), ("serve_both", 2)], ids=lambda value: str(value)
)
def test_program_serves_app(tmp_path: Path, method: str, ports: int) -> None:
    (tmp_path / "program.py").write_text(SERVES)
    command = [sys.executable, "program.py", method, *["0"] * ports]
    program = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stderr is not None
        found = {}
        for line in program.stderr:
            name, *rest = line.split()
            found[name] = rest
            if name == "gRPC":
                break
        with grpc.insecure_channel(found["gRPC"][0]) as channel:
            echo = channel.unary_unary("/blazerpc.InferenceService/PredictEcho")
            assert echo(b"\x0a\x02hi", timeout=20) == b"\x0a\x02hi"
        url = found["REST"][0].removesuffix("/docs")
        body = {"jsonrpc": "2.0", "id": 1, "method": "predict.echo", "params": {"text": "hi"}}
        assert httpx.post(f"{url}/jsonrpc", json=body, timeout=20).json()["result"] == "hi"
    finally:
        program.send_signal(signal.SIGTERM)
        output, _ = program.communicate(timeout=20)
    assert (program.returncode, output) == (0, "served\n")


def test_blazerpc_port(tmp_path: Path) -> None:
    """`--port` is that of gRPC for a BlazeApp; the REST port is any free one with `--transport grpc`."""
    (tmp_path / "app.py").write_text(DOCUMENT)
    command = [sys.executable, "-m", "inferstream", "start", "app:app", "--port", "0", "--transport", "grpc"]
    with (tmp_path / "output").open("w") as output:
        server = subprocess.Popen(
            [*command, "--metrics-port", "0"], cwd=tmp_path, stderr=output, env={**os.environ}
        )
    try:
        text = (tmp_path / "output").read_text
        eventually(lambda: "gRPC " in text() or server.poll() is not None, 30)
        lines = dict(line.split()[:2] for line in text().splitlines() if line.startswith(("REST ", "gRPC ")))
        assert not lines["gRPC"].endswith(":0")
        assert ":8080/" not in lines["REST"]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("@app.model('m')\ndef m(*xs: int) -> int: ...", "takes arguments by name"),
        ("@app.model('m')\ndef m() -> int: ...", "Model 'm' must have at least one parameter"),
        (
            "@app.model('m')\ndef m(x: int) -> int: ...\n@app.model('m')\ndef n(x: int) -> int: ...",
            "there already",
        ),
        ("", "has no models"),
    ],
)
def test_unservable_app_is_one_line(tmp_path: Path, code: str, message: str) -> None:
    text = f"from blazerpc import BlazeApp\napp = BlazeApp()\n{textwrap.dedent(code)}\n"
    (tmp_path / "app.py").write_text(text)
    command = [sys.executable, "-m", "inferstream", "start", "app:app"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1), ran.stderr
    assert message in ran.stderr


NAMES_THE_CLIENT = """
from blazerpc import BlazeApp, BlazeClient
from blazerpc.client import SERVICE_NAME

app = BlazeApp()

@app.model("double")
def double(a: int) -> int:
    return 2 * a

class Elsewhere:
    client: BlazeClient | None = None
"""


def test_app_that_imports_blazerpc_client_serves_without_grpcio(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "blaze_app.py").write_text(NAMES_THE_CLIENT)
    (tmp_path / "site" / "grpc.py").write_text("raise ModuleNotFoundError(name='grpc')")
    running = Running(
        tmp_path / "site" / "working-folder-is-above",
        target="blaze_app.py",
        PYTHONPATH=str(tmp_path / "site"),
    )
    try:
        answer = httpx.post(f"{running.url}/v2/models/double/generate", json={"a": 2}, timeout=20)
    finally:
        assert running.stop() == 0, running.text()
    assert answer.json()["output"] == 4, answer.text
