"""Results as NumPy and pandas produce them, by annotation: as calls, streams, steps and batches, here and in workers.

The table has every pair of value, kind of model, transport and place.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import httpx
import pytest

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests import grpc_web
from tests.pairs import pairwise
from tests.serving import Running, eventually, started_once
from tests.typed import Reflected

APP = '''
import collections, enum
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from inferstream import App, Finished

app = App()


class Level(enum.IntEnum):
    HIGH = 3


def serve(name, hint, make):
    """The four kinds of model that return one value."""
    def single(k: int) -> hint: return make()
    async def stream(k: int) -> AsyncIterator[hint]: yield make()
    def batch(k: list[int]) -> list[hint]: return [make() for _ in k]
    def step(states: list[int]) -> list[hint | Finished]: return [Finished(make()) for _ in states]
    def begin(k: int) -> int: return k
    app.model(f"single_{name}")(single)
    app.model(f"stream_{name}")(stream)
    app.steps(f"step_{name}")(step).admit(begin)
    if "NDArray" not in name:
        app.model(f"batch_{name}", batch=8, within_ms=5)(batch)


'''
VALUES: dict[str, tuple[str, str, Any]] = {
    "enum": ("int", "Level.HIGH", 3),
    "masked_int": ("int", "np.ma.masked", None),
    "masked": ("float", "np.ma.masked", "null"),
    "wide": ("float", "np.longdouble(.5)", 0.5),
    "range": ("Sequence[int]", "range(3)", [0, 1, 2]),
    "deque": ("Sequence[int]", "collections.deque([1, 2])", [1, 2]),
    "keys": ("Sequence[str]", "{'a': 1, 'b': 2}.keys()", ["a", "b"]),
    "generator": ("list[int]", "(i for i in range(2))", None),
    "masked_list": ("list[float]", "np.ma.array([1.5, 2.0], mask=[False, True])", [1.5, "null"]),
    "masked_integers": ("list[int]", "np.ma.array([1, 2], mask=[False, True])", None),
    "times": ("list[datetime]", "np.array(['2024-01-01', '2024-01-02'], 'M8[ns]')", "times"),
    "NDArray_object": ("npt.NDArray[np.float32]", "np.array([1, 2.5], dtype=object)", [1.0, 2.5]),
    "NDArray_null": ("npt.NDArray[np.float32]", "np.array([1, None], dtype=object)", [1.0, "null"]),
    "NDArray_texts": ("npt.NDArray[np.float32]", "np.array(['a', None], dtype=object)", None),
    "NDArray_whole": ("npt.NDArray[np.int64]", "np.array([1, None], dtype=object)", None),
    "empty": ("pd.DataFrame", "pd.DataFrame()", {}),
    "no_rows": ("pd.DataFrame", "pd.DataFrame({'a': []})", {"a": []}),
    "whole": (
        "pd.DataFrame",
        "pd.DataFrame({'a': pd.array([2**60 + 1, None], 'Int64')})",
        {"a": [2**60 + 1, "null"]},
    ),
    "long": ("pd.DataFrame", "pd.DataFrame({'a': [2**70, 1]})", {"a": [2**70, 1]}),
    "half": ("str", "'\\ud800'", None),
    "halves": ("list[str]", "['a', '\\ud800']", None),
    "half_inside": ("dict[str, Any]", "{'a': '\\ud800'}", None),
}
"""Annotation, expression, and the JSON of the value; None for one that is refused."""


def source() -> str:
    return APP + "\n".join(
        f"serve({name!r}, {hint}, lambda: {code})" for name, (hint, code, _) in VALUES.items()
    )


PLACES = ("server", "worker")


@pytest.fixture(scope="module")
def server_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """The server whose models run in a place."""

    def start(place: str) -> Running:
        folder = tmp_path_factory.mktemp("results") / "code"
        folder.mkdir()
        (folder / "app.py").write_text(source())
        workers = str(PLACES.index(place))
        return Running(folder, target="code/app.py", within=60, INFERSTREAM_PARALLEL_WORKERS=workers)

    with started_once(start) as servers:
        yield servers


class Failed(Exception):
    """The error that a client gets."""


def checked(response: httpx.Response) -> Any:
    if response.status_code != 200 or '"error"' in response.text:
        assert response.status_code in (200, 500), response.text
        raise Failed(response.text)
    text = response.text.split("\n\n")[0].removeprefix("data: ")
    return json.loads(text)


def is_stream(model: str) -> bool:
    return model.startswith(("stream", "step"))


def over_flat(app: Running, model: str) -> Any:
    k = [1] if model.startswith("batch") else 1
    action = "generate_stream" if is_stream(model) else "generate"
    return checked(app.infer(model, {"k": k}, action=action))["output"]


def over_v2(app: Running, model: str) -> Any:
    action = "infer_stream" if is_stream(model) else "infer"
    found = checked(app.infer(model, {"inputs": [tensor()]}, action=action))["outputs"][0]
    if found.get("parameters", {}).get("content_type") in ("json", "pd_json"):
        return [json.loads(each) for each in found["data"]]
    return found["data"]


def tensor() -> dict[str, Any]:
    return {"name": "k", "datatype": "INT64", "shape": [1], "data": [1]}


def message(model: str) -> messages.ModelInferRequest:
    request = messages.ModelInferRequest(model_name=model)
    request.inputs.add(name="k", datatype="INT64", shape=[1]).contents.int64_contents.append(1)
    return request


def failure_of(error: grpc.RpcError) -> Exception:
    return Failed(error.details()) if error.code() is grpc.StatusCode.INTERNAL else error


def over_grpc(app: Running, model: str) -> None:
    with grpc.insecure_channel(app.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        try:
            if is_stream(model):
                assert [*stub.ModelStreamInfer(iter([message(model)]), timeout=20)]
            else:
                stub.ModelInfer(message(model), timeout=20)
        except grpc.RpcError as error:
            raise failure_of(error) from None


def over_grpc_web(app: Running, model: str) -> None:
    rpc = "ModelStreamInfer" if is_stream(model) else "ModelInfer"
    ended = grpc_web.call(app.url, rpc, message(model).SerializeToString())
    if ended.status:
        assert ended.status == 13
        raise Failed(ended.message)


def over_typed_grpc(app: Running, model: str) -> None:
    with grpc.insecure_channel(app.grpc) as channel:
        service = Reflected(channel).service()
        [method] = [
            name for name in service.methods if name.lower() == f"predict{model.replace('_', '')}".lower()
        ]
        try:
            found = service.call(method, k=[1] if model.startswith("batch") else 1)
            assert hasattr(found, "DESCRIPTOR") or [*found]
        except grpc.RpcError as error:
            raise failure_of(error) from None


def over_jsonrpc(app: Running, model: str) -> Any:
    k = [1] if model.startswith("batch") else 1
    call = {"jsonrpc": "2.0", "method": model, "params": {"k": k}, "id": 1}
    found = checked(httpx.post(f"{app.url}/rpc", json=call, timeout=20))["result"]
    return found[0] if is_stream(model) else found


READ: dict[str, Callable[[Running, str], Any]] = {
    "flat JSON": over_flat,
    "V2": over_v2,
    "JSON-RPC": over_jsonrpc,
}
SILENT: dict[str, Callable[[Running, str], Any]] = {
    "gRPC": over_grpc,
    "gRPC-Web": over_grpc_web,
    "typed gRPC": over_typed_grpc,
}
"""Transports whose values are not compared: their bytes have tests elsewhere."""


def nulls(value: Any) -> Any:
    if value == "null":
        return None
    if isinstance(value, dict):
        return {name: nulls(each) for name, each in value.items()}
    return [nulls(each) for each in value] if isinstance(value, list) else value


KINDS = ("single", "batch", "stream", "step")


def kind_of(kind: str, value: str) -> str:
    """The kind itself, but batches take no generators, which pydantic reads, and no arrays."""
    return "single" if kind == "batch" and ("NDArray" in value or value == "generator") else kind


ROWS = [
    (f"{kind_of(kind, value)}_{value}", transport, place)
    for value, transport, kind, place in pairwise(list(VALUES), [*READ, *SILENT], KINDS, PLACES)
]


@pytest.mark.parametrize(("model", "transport", "place"), ROWS)
def test_result_is_encoded_or_refused_by_name(
    server_in: Callable[[str], Running], model: str, transport: str, place: str
) -> None:
    app = server_in(place)
    right = VALUES[model.partition("_")[2]][2]
    call = (READ | SILENT)[transport]
    before = len(app.text())
    if right is None:
        with pytest.raises(Failed, match="output"):
            call(app, model)
        eventually(lambda: "failed on request" in app.text()[before:])
        assert app.text()[before:].count("failed on request") == 1
        return
    found = call(app, model)
    assert "failed on request" not in app.text()[before:]
    if transport in SILENT:
        return
    if right == "times":
        right = ["2024-01-01T00:00:00", "2024-01-02T00:00:00"]
    assert found in (nulls(right), [nulls(right)]), found
