"""BlazeRPC's names: every one is there, and does what its own does."""

import asyncio
import importlib
import inspect
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferstream import compat, testing
from inferstream.compat.blazerpc.frameworks import converting
from inferstream.compat.blazerpc_names import MODULES
from inferstream.compat.finder import Replaced
from inferstream.errors import InvalidRequest, InvalidSettings, ModelError, Unsupported
from inferstream.tools.stub.source import stub_source

compat.install()

import blazerpc  # type: ignore[import-not-found]
from blazerpc import (
    BlazeApp,
    BlazeRPCError,
    ConfigurationError,
    Context,
    Depends,
    InferenceError,
    ModelNotFoundError,
    SerializationError,
    TensorInput,
    TensorOutput,
    ValidationError,
)
from blazerpc.context import AppState  # type: ignore[import-not-found]
from blazerpc.runtime.json_serialization import (  # type: ignore[import-not-found]
    is_tensor_json,
    tensor_from_json,
    tensor_to_json,
)
from blazerpc.runtime.registry import ModelRegistry  # type: ignore[import-not-found]
from blazerpc.server.middleware import (  # type: ignore[import-not-found]
    LoggingMiddleware,
    Middleware,
    OTelMetricsMiddleware,
)
from grpclib import GRPCError, Status  # type: ignore[import-not-found]

NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("blazerpc_names.json").read_text())
"""Every public name of every module of BlazeRPC 2.2.1, as its wheel defines them."""

LIBRARIES = {
    "blazerpc.contrib.pytorch": "torch",
    "blazerpc.contrib.tensorflow": "tensorflow",
    "blazerpc.contrib.onnx": "onnxruntime",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_there(module: str) -> None:
    if module in LIBRARIES:
        pytest.importorskip(LIBRARIES[module])
    found = importlib.import_module(module)
    for name in NAMES[module]:
        assert hasattr(found, name), f"{module}.{name}"


def test_the_table_has_no_other_module() -> None:
    assert {*MODULES} == {*NAMES} | {"grpclib", "grpclib.const", "grpclib.events", "grpclib.exceptions"}


def test_what_cannot_be_used_says_what_to_use_instead() -> None:
    from blazerpc.codegen.servicer import InferenceServicer  # type: ignore[import-not-found]

    assert issubclass(InferenceServicer, Replaced)
    with pytest.raises(Unsupported, match=r"is a part of BlazeRPC .*: inferstream\.testing\.run\(app\)"):
        InferenceServicer(None)


def test_an_installed_package_wins(tmp_path: Path) -> None:
    (tmp_path / "blazerpc.py").write_text("real = True")
    (tmp_path / "grpclib.py").write_text("real = True")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import inferstream.compat; inferstream.compat.install()\n"
        "import blazerpc, grpclib; assert blazerpc.real and grpclib.real"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_app_and_its_client_import_no_server() -> None:
    code = (
        "import sys, inferstream.compat; inferstream.compat.install()\n"
        "from blazerpc import BlazeApp, BlazeClient, JsonRpcClient\n"
        "app = BlazeApp()\n"
        "assert app.found_at() == (None, None)\n"
        "assert not {'fastapi', 'uvicorn', 'prometheus_client', 'inferstream.server.server'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_errors() -> None:
    for error, status in (
        (BlazeRPCError("x"), 500),
        (ValidationError("x", field="f"), 400),
        (SerializationError("x", dtype="d"), 400),
        (InferenceError("x", model_name="m"), 500),
        (ConfigurationError("x"), 500),
        (ModelNotFoundError("m", "2"), 404),
    ):
        assert isinstance(error, BlazeRPCError)
        assert isinstance(error, ModelError)
        assert error.status_code == status
    assert str(ModelNotFoundError("m", "2")) == "Model 'm' version '2' not found"
    assert (ValidationError("x", field="f").field, SerializationError("x", dtype="d").dtype) == ("f", "d")
    assert GRPCError(Status.NOT_FOUND).status_code == 404
    assert blazerpc.__version__ == "2.2.1"


def test_an_app_knows_the_module_that_made_it(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text("from blazerpc import BlazeApp\nserved = BlazeApp()\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import made  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("made", None)
    assert made.served.found_at() == ("made:served", str(tmp_path / "made.py"))


def test_the_registry() -> None:
    app = BlazeApp()

    def get_db(ctx: Context) -> int: ...

    @app.model("a")
    def one(x: int, ctx: Context, db: int = Depends(get_db)) -> str: ...

    @app.model("a", version="2")
    def two(x: int) -> Iterator[str]:
        yield ""

    assert [(info.name, info.version, info.streaming) for info in app.registry.list_models()] == [
        ("a", "1", False),
        ("a", "2", True),
    ]
    info = app.registry.get("a")
    assert (info.func, info.input_types, info.output_type) == (one, {"x": int}, str)
    assert (info.context_params, [*info.dep_params]) == (["ctx"], ["db"])
    assert app.registry.models["a:2"].func is two
    assert app.registry.get_or_none("a", "3") is None
    with pytest.raises(ModelNotFoundError, match="Model 'b' version '1' not found"):
        app.registry.get("b")
    assert isinstance(app.state, AppState)


def test_a_function_must_have_parameters_and_a_name_of_its_own() -> None:
    app = BlazeApp()
    with pytest.raises(ValidationError, match="at least one parameter"):
        app.model("none")(lambda: 1)
    app.model("x")(lambda x: x)
    with pytest.raises(InvalidSettings, match='a model "x" is there already'):
        app.model("x")(lambda x: x)


async def test_functions_without_annotations_take_and_return_arrays() -> None:
    app = BlazeApp()

    @app.model("free")
    def free(image, scale: float = 2.0):
        return None if scale == 0 else image * scale

    @app.model("text")
    def text(image):
        return "no array"

    async with testing.run(app) as models:
        for dtype in (np.float32, np.float64, np.int16):
            response = await models.infer("free", image=np.arange(3, dtype=dtype))
            assert response.outputs[0].data.flat() == [0, 2, 4]
        assert (await models.infer("free", image=np.ones(1), scale=0.0)).outputs == []
        with pytest.raises(InvalidRequest, match='"image" takes numbers, got BYTES'):
            await models.infer("free", image="a")
        with pytest.raises(Exception, match="annotate it"):
            await models.infer("text", image=np.ones(1))


def test_a_stub_takes_any_array() -> None:
    app = BlazeApp()
    app.model("free")(lambda image: image)
    assert "def free(self, image: npt.NDArray[Any]) -> npt.NDArray[Any] | None:" in stub_source(
        app, "app:app"
    )


async def test_streams_need_no_generator() -> None:
    """Whatever a `streaming=True` function returns is iterated, as in BlazeRPC."""
    app = BlazeApp()

    @app.model("words", streaming=True)
    def words(prompt: str) -> str:
        return iter(prompt.split())  # type: ignore[return-value]

    @app.model("typed", streaming=True)
    async def typed(prompt: str) -> AsyncIterator[str]:
        yield prompt

    @app.model("unmarked")
    def unmarked(prompt: str) -> str:
        yield prompt

    async with testing.run(app) as models:
        for model, wanted in (("words", ["a", "b"]), ("typed", ["a b"]), ("unmarked", ["a b"])):
            found = [
                response.outputs[0].data.flat()[0] async for response in models.stream(model, prompt="a b")
            ]
            assert found == wanted


async def test_dependencies_get_a_context() -> None:
    app = BlazeApp()
    app.state.n = 7
    seen = []

    def sync(ctx: Context) -> int:
        seen.append(ctx)
        return int(ctx.app_state.n)

    async def awaits(ctx) -> str:
        return str(ctx.method)

    @app.model("both")
    async def both(n: int, a: int = Depends(sync), b: str = Depends(awaits)) -> str:
        return f"{n} {a} {b}"

    @app.model("blocking")
    def blocking(ctx: Context, n: int, a: int = Depends(sync)) -> str:
        return f"{n} {a} {ctx.peer.addr()} {dict(ctx.metadata)}"

    async with testing.run(app) as models:
        response = await models.infer("both", n=1)
        assert response.outputs[0].data.flat() == ["1 7 /blazerpc.InferenceService/PredictBoth"]
        assert (await models.infer("blocking", n=1)).outputs[0].data.flat() == ["1 7 None {}"]
    assert isinstance(seen[0], Context)
    context = Context.from_raw({"a": "b"}, "peer", "/m", app.state)
    assert (context.metadata, context.peer, context.method) == ({"a": "b"}, "peer", "/m")
    same = Context(SimpleNamespace(metadata={}, peer=None), "/m", app.state)
    assert same.app_state is app.state


def test_only_models_of_arrays_with_a_batch_are_batched() -> None:
    app = BlazeApp(max_batch_size=8, batch_timeout_ms=4)
    rows, pairs = TensorInput[np.float32, "batch", 4], TensorOutput[np.float32, "batch", 2]

    @app.model("rows")
    def of_rows(x: rows, y: rows) -> pairs: ...

    @app.model("single")
    def single(x: rows, scale: float) -> pairs: ...

    @app.model("sum")
    def total(x: rows) -> TensorOutput[np.float32, 4]: ...

    @app.model("context")
    def context(x: rows, ctx: Context) -> pairs: ...

    @app.model("free")
    def free(x): ...

    found = {settings.name: (settings.max_batch_size, settings.max_batch_time) for settings in app.settings()}
    assert found.pop("rows") == (8, 0.004)
    assert {*found.values()} == {(0, 0.0)}
    off = BlazeApp(enable_batching=False)
    off.model("rows")(of_rows)
    assert off.settings()[0].max_batch_size == 0


async def test_a_batch_runs_once_and_each_caller_gets_its_rows() -> None:
    app = BlazeApp(batch_timeout_ms=10_000)
    began, go_on, sizes = asyncio.Event(), asyncio.Event(), []
    column = TensorInput[np.float32, "batch", 1]

    @app.model("scale")
    async def scale(x: column) -> column:
        sizes.append(len(x))
        if len(sizes) == 1:
            began.set()
            await go_on.wait()
        return x * 2

    async with testing.run(app) as models:
        first = asyncio.create_task(models.infer("scale", x=np.zeros((1, 1), np.float32)))
        await began.wait()
        others = [
            asyncio.create_task(models.infer("scale", x=np.full((n, 1), n, np.float32))) for n in (1, 2, 3)
        ]
        for _ in range(100):
            await asyncio.sleep(0)  # until all others gather
        go_on.set()
        found = [response.outputs[0].data.flat() for response in await asyncio.gather(first, *others)]
    assert found == [[0], [2], [4, 4], [6, 6, 6]]
    assert sizes == [1, 6]


class Recording(Middleware):
    def __init__(self, name: str, seen: list[Any]) -> None:
        self._name = name
        self._seen = seen

    async def on_request(self, event: Any) -> None:
        self._seen.append((self._name, "request", event.method_name))

    async def on_response(self, event: Any) -> None:
        self._seen.append((self._name, event.status.name, event.status_message))


async def test_middleware_runs_in_the_order_of_the_list() -> None:
    seen: list[Any] = []
    app = BlazeApp(middleware=[Recording("a", seen), Recording("b", seen)])

    @app.model("half")
    def half(n: int) -> int:
        if n % 2:
            raise ValidationError("odd")
        return n // 2

    @app.model("count", streaming=True)
    async def count(n: int) -> int:
        for i in range(n):
            yield i

    path = "/blazerpc.InferenceService/PredictHalf"
    async with testing.run(app) as models:
        await models.infer("half", n=2)
        assert seen == [("a", "request", path), ("b", "request", path), ("a", "OK", None), ("b", "OK", None)]
        seen.clear()
        with pytest.raises(ModelError):
            await models.infer("half", n=1)
        assert seen[2:] == [("a", "INVALID_ARGUMENT", "odd"), ("b", "INVALID_ARGUMENT", "odd")]
        seen.clear()
        stream = models.stream("count", n=9)
        await anext(stream)
        await stream.aclose()
        async with asyncio.timeout(10):
            while len(seen) < 4:
                await asyncio.sleep(0)
        assert [status for _, status, _ in seen[2:]] == ["CANCELLED", "CANCELLED"]


async def test_a_middleware_that_fails_at_the_end_changes_no_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Fails(LoggingMiddleware):
        async def on_response(self, event: Any) -> None:
            raise RuntimeError("broken")

    app = BlazeApp(middleware=[Fails()])

    @app.model("echo")
    def echo(n: int) -> int:
        return n

    async with testing.run(app) as models:
        assert (await models.infer("echo", n=2)).outputs[0].data.flat() == [2]
    assert "on_response of Fails failed" in caplog.text


async def test_errors_of_an_installed_grpclib_have_their_status(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("grpclib.exceptions")

    class Theirs(Exception):
        def __init__(self, status: Any, message: str | None = None) -> None:
            self.status, self.message = status, message

    library.GRPCError = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "grpclib.exceptions", library)
    app = BlazeApp()

    @app.model("m")
    def fails(n: int) -> int:
        raise Theirs(SimpleNamespace(name="RESOURCE_EXHAUSTED"), "too many")

    async with testing.run(app) as models:
        with pytest.raises(ModelError, match="too many") as raised:
            await models.infer("m", n=1)
    assert raised.value.status_code == 429


async def test_metrics_of_opentelemetry() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    app = BlazeApp(middleware=[OTelMetricsMiddleware(provider.get_meter("test"))])

    @app.model("echo")
    def echo(n: int) -> int:
        return n

    async with testing.run(app) as models:
        await models.infer("echo", n=2)
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {
        metric.name: metric.data.data_points[0]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    labels = {"method": "/blazerpc.InferenceService/PredictEcho", "status": "0"}
    assert (metrics["blazerpc.rpc.count"].value, metrics["blazerpc.rpc.count"].attributes) == (1, labels)
    assert metrics["blazerpc.rpc.duration"].count == 1
    provider.shutdown()


async def test_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "blazerpc.middleware")
    app = BlazeApp(middleware=[LoggingMiddleware()])

    @app.model("echo")
    def echo(n: int) -> int:
        return n

    async with testing.run(app) as models:
        await models.infer("echo", n=2)
    path = "/blazerpc.InferenceService/PredictEcho"
    assert [record.getMessage() for record in caplog.records if record.name == "blazerpc.middleware"] == [
        f"RPC request: {path} from unknown",
        f"RPC response: {path} status=OK message=",
    ]


def test_middleware_is_not_attached_to_a_server() -> None:
    with pytest.raises(Unsupported, match=r"BlazeApp\(middleware="):
        LoggingMiddleware().attach(None)


async def test_framework_functions_of_every_kind() -> None:
    def plain(x: int, y: int) -> int:
        return x + y

    async def awaited(x: int) -> int:
        return x

    def generator(x: int) -> Iterator[int]:
        yield x

    async def stream(x: int) -> AsyncIterator[int]:
        yield x

    def doubled(value: int) -> int:
        return value * 2

    def negated(value: int) -> int:
        return -value

    assert converting(plain, doubled, negated)(1, y=2) == -6
    assert await converting(awaited, doubled, negated)(1) == -2
    assert [*converting(generator, doubled, negated)(1)] == [-2]
    assert [item async for item in converting(stream, doubled, negated)(1)] == [-2]
    assert inspect.signature(converting(plain, doubled, negated)) == inspect.signature(plain)


async def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from blazerpc.contrib.pytorch import torch_model  # type: ignore[import-not-found]

    app = BlazeApp()

    @app.model("classifier")
    @torch_model(device="cpu")
    def classify(image):
        assert isinstance(image, torch.Tensor)
        return image.softmax(-1)

    async with testing.run(app) as models:
        response = await models.infer("classifier", image=np.zeros((1, 2), np.float32))
    assert (response.outputs[0].shape, response.outputs[0].data.flat()) == ([1, 2], [0.5, 0.5])


async def test_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from blazerpc.contrib.onnx import ONNXModel  # type: ignore[import-not-found]

    numbers = onnx.TensorProto.FLOAT
    described = [onnx.helper.make_tensor_value_info(name, numbers, ["n"]) for name in ("x", "y", "sum")]
    node = onnx.helper.make_node("Add", ["x", "y"], ["sum"])
    graph = onnx.helper.make_graph([node], "add", described[:2], described[2:])
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "add.onnx")
    model = ONNXModel(tmp_path / "add.onnx")
    assert (model.input_names, model.output_names) == (["x", "y"], ["sum"])
    one = np.ones(2, np.float32)
    assert model.predict_dict({"x": one, "y": one})["sum"].tolist() == [2, 2]
    with pytest.raises(ValueError, match="Expected 2 inputs"):
        model.predict(one)
    app = BlazeApp()

    @app.model("classifier")
    def classify(image: np.ndarray) -> np.ndarray:
        return model.predict(image, one)[0]

    async with testing.run(app) as models:
        assert (await models.infer("classifier", image=one)).outputs[0].data.flat() == [2, 2]


def test_arrays_as_json_objects() -> None:
    array = np.arange(4, dtype=np.float32).reshape(2, 2)
    written = tensor_to_json(array)
    assert is_tensor_json(written)
    assert tensor_from_json(written).tolist() == array.tolist()
    with pytest.raises(SerializationError, match="unknown dtype"):
        tensor_from_json({**written, "dtype": "x"})


def test_a_registry_of_its_own_makes_the_same_messages() -> None:
    registry = ModelRegistry()
    registry.register("echo", "1", lambda x: x)
    assert registry.get("echo").name == "echo"
    assert [*registry.app] == [registry.app["echo@1"]]


def test_what_cannot_be_used_is_listed_with_what_to_use_instead() -> None:
    section = (Path(__file__).parents[3] / "docs" / "blazerpc.md").read_text()
    section = section.partition("## What can be imported and not used")[2]
    documented = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            names, _, sentence = line.strip("| ").partition(" | ")
            documented |= dict.fromkeys(names.strip("`").split("`, `"), sentence)
    replaced = {}
    for module in NAMES:
        if module not in LIBRARIES:
            found = vars(importlib.import_module(module)).values()
            kinds = [each for each in found if isinstance(each, type) and issubclass(each, Replaced)]
            replaced |= {kind.__name__: kind.instead for kind in kinds}
    assert documented == replaced
