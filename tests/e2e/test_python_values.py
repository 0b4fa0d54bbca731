"""Values as NumPy and Python produce them, over every interface, in this process and in workers."""

import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from websockets.sync.client import connect

from inferstream import Client
from tests.serving import Running

FINAL = "triton_final_response"

APP = '''
import decimal, functools, pathlib, uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import inferstream
import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, BeforeValidator
from inferstream import App

app = App()
VALUE = {"label": np.int64(1), "score": np.float32(.5), "v": np.arange(4)[::2], "raw": b"\\x89P", "no": pd.NaT}


class Mixed(Enum):
    ONE = 1
    B = "b"


class Named(NamedTuple):
    model_name: str
    id: int


@dataclass
class Data:
    image: bytes


class Model(BaseModel):
    image: bytes


class Scaled:
    """Scales a number."""

    def __call__(self, x: int) -> int:
        return 3 * x


def bound(x: int, weights: list[int], by: int) -> int:
    return weights[0] * by * x


app.model("scaled")(Scaled())
app.model("bound")(functools.partial(bound, weights=[2], by=5))


@app.model
def loose(x: int) -> dict: return VALUE
@app.model
def anything(x: int) -> Any: return VALUE
@app.model
def rows(x: int) -> list[dict[str, Any]]: return [VALUE]
@app.model
def stream(x: int) -> Iterator[dict]:
    yield VALUE
    yield VALUE
@app.model
def data(x: Data) -> Data: return Data(x.image + x.image)
@app.model
def pydantic_model(x: Model) -> Model: return Model(image=x.image + x.image)
@app.model
def mapping(x: dict[str, bytes]) -> dict[str, bytes]: return {"image": x["image"] * 2}
@app.model
def named(x: int) -> Named: return Named("mine", x)
@app.model
def exact(x: Any) -> Any: return [x, type(x).__name__]
@app.model
def items(x: Iterable[str]) -> int: return len(list(x))
@app.model
def identifier(x: uuid.UUID) -> uuid.UUID: return x
@app.model
def money(x: decimal.Decimal) -> decimal.Decimal: return x
@app.model
def path(x: pathlib.Path) -> pathlib.Path: return x
@app.model
def literal(x: Literal["auto", 1]) -> str: return repr(x)
@app.model
def member(x: Mixed) -> str: return x.name
@app.model
def tags(x: Annotated[list[str], BeforeValidator(lambda v: v.split(",") if isinstance(v, str) else v)]) -> int:
    return len(x)
@app.model
def day(x: Annotated[date, BeforeValidator(lambda v: v.replace("/", "-"))]) -> str: return str(x)
@app.model
def width(x: Annotated[int, BeforeValidator(lambda v: v.strip("px") if isinstance(v, str) else v)]) -> int: return x
@app.model
def inplace(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    x *= 2
    return x
@app.model(batch=4, within_ms=20)
def together(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    x *= 2
    return x
@app.model
def column(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]: return x.reshape(2, 2)[:, 1]
@app.model
def measured(x: int) -> int:
    inferstream.log(measured_number=np.array([2.5]))
    return x
@app.model
def frame(x: int) -> pd.DataFrame:
    if x == 2:
        return pd.DataFrame([[1, 2]], columns=["a", "a"])
    return pd.DataFrame({"a": pd.to_datetime(["2024-01-01", None]), "b": pd.array([1, None], dtype="Int64")})
'''
VALUE = {"label": 1, "score": 0.5, "v": [0, 2], "raw": "iVA=", "no": None}
BIG = 2**70
UUID = "00000000-0000-0000-0000-000000000001"

CALLS = [
    ("loose", 1, VALUE),
    ("anything", 1, VALUE),
    ("rows", 1, [VALUE]),
    ("data", {"image": "aGk="}, {"image": "aGloaQ=="}),
    ("pydantic_model", {"image": "aGk="}, {"image": "aGloaQ=="}),
    ("mapping", {"image": "aGk="}, {"image": "aGloaQ=="}),
    ("exact", BIG, [BIG, "int"]),
    ("exact", {"n": [BIG, 0.5]}, [{"n": [BIG, 0.5]}, "dict"]),
    ("items", ["a", "b"], 2),
    ("identifier", UUID, UUID),
    ("money", "1.10", "1.10"),
    ("path", "a/b", "a/b"),
    ("literal", 1, "1"),
    ("literal", "auto", "'auto'"),
    ("member", "b", "B"),
    ("tags", "a,b", 2),
    ("tags", ["a"], 1),
    ("day", "2024/01/31", "2024-01-31"),
    ("width", "12px", 12),
    ("width", 3, 3),
    ("scaled", 2, 6),
    ("bound", 2, 20),
    ("inplace", [1.5, 2.0], [3.0, 4.0]),
    ("column", [1.0, 2.0, 3.0, 4.0], [2.0, 4.0]),
    ("frame", 1, {"a": ["2024-01-01T00:00:00", None], "b": [1, None]}),
]


@pytest.fixture(scope="module")
def app(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("values") / "code"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    target = "code/app.py"
    running = Running(folder, target=target, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


def over_rest(app: Running, model: str, x: Any) -> Any:
    return httpx.post(f"{app.url}/v2/models/{model}/generate", json={"x": x}, timeout=20).json()["output"]


def over_events(app: Running, model: str, x: Any) -> Any:
    answer = httpx.post(f"{app.url}/v2/models/{model}/generate_stream", json={"x": x}, timeout=20)
    return json.loads(answer.text.split("\n\n")[0].removeprefix("data: "))["output"]


def over_websocket(app: Running, model: str, x: Any) -> Any:
    with connect(f"{app.url.replace('http', 'ws', 1)}/v2/models/{model}/stream") as socket:
        socket.send(json.dumps({"model": model, "x": x}))
        return json.loads(socket.recv(timeout=20))["output"]


def over_jsonrpc(app: Running, model: str, x: Any) -> Any:
    call = {"jsonrpc": "2.0", "method": model, "params": {"x": x}, "id": 1}
    return httpx.post(f"{app.url}/rpc", json=call, timeout=20).json()["result"]


def over_v1(app: Running, model: str, x: Any) -> Any:
    call = {"instances": [{"x": x}]}
    return httpx.post(f"{app.url}/v1/models/{model}:predict", json=call, timeout=20).json()["predictions"][0]


@pytest.mark.parametrize("over", [over_rest, over_events, over_websocket, over_jsonrpc, over_v1])
@pytest.mark.parametrize(("model", "x", "right"), CALLS)
def test_values_are_equal_over_every_json_interface(
    app: Running, over: Callable[..., Any], model: str, x: Any, right: Any
) -> None:
    found = over(app, model, x)
    assert found == right or found == [right], found


def test_reserved_names_belong_to_function(app: Running) -> None:
    answer = httpx.post(f"{app.url}/v2/models/named/generate", json={"x": 5}, timeout=20).json()
    assert (answer["model_name"], answer["id"]) == ("mine", 5)


def test_streams_contain_numpy_values(app: Running) -> None:
    answer = httpx.post(f"{app.url}/v2/models/stream/generate_stream", json={"x": 1}, timeout=20)
    items = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    assert [item["output"] for item in items] == [VALUE, VALUE]


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("library", [triton_http, triton_grpc])
@pytest.mark.parametrize("binary", [True, False])
def test_inputs_can_be_changed_in_place(app: Running, library: Any, count: int, binary: bool) -> None:
    x = np.arange(count, dtype=np.float32)
    tensor = library.InferInput("x", [count], "FP32")
    tensor.set_data_from_numpy(x, **({"binary_data": binary} if library is triton_http else {}))
    url = app.grpc if library is triton_grpc else app.url.removeprefix("http://")
    with library.InferenceServerClient(url) as client:
        found = client.infer("inplace", [tensor]).as_numpy("output")
    assert np.array_equal(found, 2 * x)


def test_batch_changed_in_place_returns_own_rows(app: Running) -> None:
    def ask(value: float) -> Any:
        tensor = triton_http.InferInput("x", [1, 2000], "FP32")
        tensor.set_data_from_numpy(np.full((1, 2000), value, np.float32))
        with triton_http.InferenceServerClient(app.url.removeprefix("http://")) as client:
            return client.infer("together", [tensor]).as_numpy("output")

    with ThreadPoolExecutor(8) as pool:
        for value, found in enumerate(pool.map(ask, range(16))):
            assert (found == 2 * value).all()


def test_tools_return_values(app: Running) -> None:
    call = {"name": "loose", "arguments": {"x": 1}}
    document = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"accept": "application/json, text/event-stream"}
    found = httpx.post(f"{app.url}/mcp", json=document, headers=accept, timeout=20).json()
    assert VALUE in (found["result"]["structuredContent"], found["result"]["structuredContent"].get("output"))


def test_typed_clients_send_and_receive_values(app: Running) -> None:
    with Client(app.url) as client:
        assert client.predict("data", x={"image": base64.b64encode(b"hi").decode()}) == {"image": "aGloaQ=="}
        assert client.predict("loose", x=1) == VALUE


def test_single_number_array_is_a_metric(app: Running) -> None:
    assert over_rest(app, "measured", 1) == 1
    page = httpx.get(f"{app.url}/metrics", timeout=20)
    assert page.status_code == 200
    assert 'measured_number_sum{model_name="measured",model_version=""} 2.5' in page.text


def test_duplicate_columns_are_named(app: Running) -> None:
    answer = httpx.post(f"{app.url}/v2/models/frame/generate", json={"x": 2}, timeout=20)
    assert answer.status_code == 500
    assert 'more than one column "a"' in answer.json()["error"]
