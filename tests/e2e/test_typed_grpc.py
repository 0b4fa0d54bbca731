"""Functions as typed RPCs, called by a client that has the messages from reflection alone."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.frontends import spread
from tests.serving import SERVER, Running, eventually
from tests.typed import VERSIONS, Reflected, Service

APP = Path(__file__).with_name("typed_app.py")
NAME = "inferstream.App"
OPEN = {"INFERSTREAM_ALLOW_OPEN_REPOSITORY": "true"}


def served(folder: Path, workers: int = 0, *flags: str, code: str | None = None) -> Running:
    app = folder / "app" / "typed_app.py"
    app.parent.mkdir(exist_ok=True)
    app.write_text(APP.read_text() if code is None else code)
    return Running(app, *flags, INFERSTREAM_PARALLEL_WORKERS=str(workers), **OPEN)


@pytest.fixture(scope="module")
def typed(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = served(tmp_path_factory.mktemp("typed"), workers)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def service(typed: Running) -> Iterator[Service]:
    with grpc.insecure_channel(typed.grpc) as channel:
        yield Reflected(channel).service()


def test_unary_request_and_response(service: Service) -> None:
    assert service.call("PredictAdd", a=2, b=3).result == 5
    assert service.call("PredictAdd", a=-(2**62)).result == -(2**62) + 1
    said = json.loads(
        service.call("PredictEcho", text="ü", raw=b"\xff\0", yes=True, more='{"a": [1]}').result
    )
    assert said == {"text": "ü", "raw": "ff00", "ratio": 0.5, "yes": True, "kind": "a", "more": {"a": [1]}}
    assert json.loads(service.call("PredictEcho", text="", ratio=0.0).result)["ratio"] == 0.0


def test_lists_and_several_outputs(service: Service) -> None:
    found = service.call("PredictParts", texts=["a", "", "bcd"])
    assert (found.text, [*found.sizes]) == ("abcd", [1, 0, 3])


@pytest.mark.parametrize("rows", [2, 20_000])
def test_arrays(service: Service, rows: int) -> None:
    x = np.arange(3 * rows, dtype="<f4").reshape(rows, 3)
    found = service.call("PredictMyArray", x={"shape": x.shape, "dtype": "float", "data": x.tobytes()}).result
    assert (found.dtype, [*found.shape]) == ("double", [rows, 3])
    np.testing.assert_array_equal(np.frombuffer(found.data).reshape(rows, 3), x.astype(float) * 2)


@pytest.mark.parametrize("method", ["PredictGenerate", "PredictBlocking"])
def test_server_stream(service: Service, method: str) -> None:
    fields = {"prompt": "a b c"} if method == "PredictGenerate" else {"count": 3, "tag": "whole"}
    expected = ["a", "b", "c"] if method == "PredictGenerate" else [0, 1, 2]
    assert [response.result for response in service.call(method, **fields)] == expected
    if method == "PredictGenerate":
        assert [*service.call(method, prompt="")] == []


def test_client_stream(service: Service) -> None:
    assert service.stream("PredictTotal", [{"start": 4}, {"numbers": 3}, {"numbers": 5}]).result == 12
    assert service.stream("PredictTotal", [{"numbers": 3}]).result == 3
    assert service.stream("PredictTotal", []).result == 0


def test_bidirectional_ping_pong(service: Service) -> None:
    """The next request is made of the response before."""
    seen: list[int] = []

    def requests() -> Iterator[dict]:
        yield {"numbers": 1}
        for count in range(1, 5):
            eventually(lambda: len(seen) == count)  # noqa: B023  # it is called before `count` changes
            yield {"numbers": seen[-1]}

    for response in service.stream("PredictDouble", requests()):
        seen.append(response.result)
    assert seen == [2, 4, 8, 16, 32]


def test_mid_stream_error_follows_responses(service: Service) -> None:
    words = []
    with pytest.raises(grpc.RpcError) as caught:
        for response in service.call("PredictGenerate", prompt="a b c", fail_at=2):
            words.append(response.result)
    assert words == ["a", "b"]
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "no word after c")


@pytest.mark.parametrize(
    ("method", "fields", "said"),
    [
        ("PredictAdd", {"b": 1}, 'argument "a" is missing'),
        ("PredictGenerate", {}, 'argument "prompt" is missing'),
        ("PredictEcho", {"text": "a", "kind": "c"}, "argument \"kind\" takes one of 'a', 'b', got 'c'"),
        ("PredictEcho", {"text": "a", "more": "{"}, 'argument "more": not valid JSON'),
        (
            "PredictMyArray",
            {"x": {"shape": [2, 2], "dtype": "float", "data": bytes(16)}},
            'argument "x" takes shape',
        ),
        ("PredictMyArray", {"x": {"shape": [1, 3], "dtype": "float", "data": bytes(11)}}, 'argument "x"'),
        ("PredictMyArray", {"x": {"shape": [-1, 3], "dtype": "float", "data": bytes(12)}}, 'argument "x"'),
        ("PredictMyArray", {"x": {"shape": [1, 3], "dtype": "nothing", "data": bytes(12)}}, 'argument "x"'),
        ("PredictMyArray", {"x": {"shape": [1, 3], "dtype": "double", "data": bytes(24)}}, None),
    ],
)
def test_invalid_values_name_argument(service: Service, method: str, fields: dict, said: str | None) -> None:
    if said is None:  # a wider type of number is cast
        assert [*service.call(method, **fields).result.shape] == [1, 3]
        return
    with pytest.raises(grpc.RpcError) as caught:
        found = service.call(method, **fields)
        [*found]  # noqa: B018
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert said in caught.value.details()


@pytest.mark.parametrize("method", ["PredictAdd", "PredictBlocking", "PredictDouble"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x48\x01", "field 9 is no argument of the model; it takes "),
        (b"\x0a\x01a", " in field 1 is no int64"),
        (b"\x08", " in field 1 is cut off"),
        (b"\xff\xff\xff", "The message is not a "),
    ],
)
def test_invalid_bytes_name_field(service: Service, method: str, data: bytes, said: str) -> None:
    rpc = service.rpc(method, raw=True)
    with pytest.raises(grpc.RpcError) as caught:
        found = rpc(iter([data]), timeout=20) if method == "PredictDouble" else rpc(data, timeout=20)
        [*found]  # noqa: B018
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert said in caught.value.details()


def test_out_of_range_number_is_refused_on_every_transport(typed: Running, service: Service) -> None:
    x, said = np.array([[1.0, 2.0, 1e300]]), 'argument "x": a value is out of range for FP32'
    head = {"name": "x", "datatype": "FP64", "shape": [1, 3]}
    binary = json.dumps({"inputs": [{**head, "parameters": {"binary_data_size": x.nbytes}}]}).encode()
    url = f"{typed.url}/v2/models/my-array/infer"
    values = ModelInferRequest(model_name="my-array")
    values.inputs.add(**head).contents.fp64_contents.extend(x.reshape(-1))
    raw = ModelInferRequest(model_name="my-array", raw_input_contents=[x.tobytes()])
    raw.inputs.add(**head)
    for response in (
        httpx.post(url, json={"inputs": [{**head, "data": x.tolist()}]}),
        httpx.post(
            url, content=binary + x.tobytes(), headers={"Inference-Header-Content-Length": str(len(binary))}
        ),
    ):
        assert (response.status_code, response.json()["error"]) == (400, said)
    with grpc.insecure_channel(typed.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        array = {"shape": [1, 3], "dtype": "double", "data": x.tobytes()}
        for call in (
            lambda: stub.ModelInfer(values, timeout=20),
            lambda: stub.ModelInfer(raw, timeout=20),
            lambda: service.call("PredictMyArray", x=array),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, said)


def test_infinity_is_a_valid_value(service: Service) -> None:
    x = np.array([[1.0, 2.0, np.inf]], "f4")
    found = service.call("PredictMyArray", x={"shape": [1, 3], "dtype": "float", "data": x.tobytes()}).result
    np.testing.assert_array_equal(np.frombuffer(found.data), [2.0, 4.0, np.inf])


def test_later_invalid_request_ends_stream(service: Service) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        service.stream("PredictTotal", [{"numbers": 1}, {"start": 1}])
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert 'argument "start" is in a later request, which takes only "numbers"' in caught.value.details()


def test_function_errors(service: Service) -> None:
    for what, code in (("mapped", grpc.StatusCode.NOT_FOUND), ("other", grpc.StatusCode.INTERNAL)):
        with pytest.raises(grpc.RpcError) as caught:
            service.call("PredictFails", what=what)
        assert caught.value.code() is code
        assert "Traceback" not in caught.value.details()


def test_unserved_method_is_unimplemented(typed: Running) -> None:
    with grpc.insecure_channel(typed.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"/{NAME}/PredictNothing")(b"", timeout=20)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("how", ["cancel", "deadline"])
@pytest.mark.parametrize("method", ["PredictEndless", "PredictBlocking"])
def test_cancel_runs_finally(service: Service, typed: Running, method: str, how: str) -> None:
    fields = {"tag": f"{method} {how}"} | ({"count": 10**6} if method == "PredictBlocking" else {})
    stream = service.call(method, timeout=1 if how == "deadline" else 20, **fields)
    assert next(stream).result == 0
    if how == "cancel":
        stream.cancel()
    else:
        with pytest.raises(grpc.RpcError) as caught:
            [*stream]  # noqa: B018
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: typed.noted(f"{method.removeprefix('Predict').lower()} closed: {method} {how}"))


def test_metadata_reaches_function_and_calls_are_counted(service: Service, typed: Running) -> None:
    labels = {"grpc_service": NAME, "grpc_method": "PredictHeader", "grpc_type": "UNARY"}
    before = typed.metric("grpc_server_handled_total", **labels, grpc_code="OK")
    assert service.call("PredictHeader", name="x-mark", metadata=(("x-mark", "here"),)).result == "here"
    assert typed.metric("grpc_server_handled_total", **labels, grpc_code="OK") == before + 1
    assert typed.metric("grpc_server_msg_received_total", **labels) >= 1


@pytest.mark.parametrize("version", VERSIONS)
def test_reflection_lists_and_describes_service(typed: Running, version: str) -> None:
    with grpc.insecure_channel(typed.grpc) as channel:
        reflected = Reflected(channel, version)
        assert NAME in reflected.services()
        [file] = reflected.files(NAME)
        assert {"AddRequest", "AddResponse", "TensorProto"} <= {message.name for message in file.message_type}
        for symbol in (f"{NAME}.PredictAdd", "inferstream.AddRequest", "inferstream.TensorProto"):
            assert reflected.files(symbol) == [file]
        method = reflected.method(NAME, "PredictDouble")
        assert (method.client_streaming, method.server_streaming) == (True, True)
        assert reflected.files("inferstream.Nothing") == []


def test_health_service_lists_service(typed: Running) -> None:
    with grpc.insecure_channel(typed.grpc) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        found = health.Check(health_pb2.HealthCheckRequest(service=NAME), timeout=20)
        assert found.status == health_pb2.HealthCheckResponse.SERVING
        first = next(health.Watch(health_pb2.HealthCheckRequest(service=NAME), timeout=20))
        assert first.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError):
            health.Check(health_pb2.HealthCheckRequest(service="inferstream.Nothing"), timeout=20)


def test_served_methods_follow_models(typed: Running, service: Service) -> None:
    repository = f"{typed.url}/v2/repository/models/header"
    assert service.call("PredictHeader", name="x").result == ""
    assert httpx.post(f"{repository}/unload", timeout=20).status_code == 200
    with grpc.insecure_channel(typed.grpc) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            service.call("PredictHeader", name="x")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "PredictHeader" not in Reflected(channel).service().methods
        assert service.call("PredictAdd", a=1).result == 2
        assert httpx.post(f"{repository}/load", timeout=60).status_code == 200
        assert Reflected(channel).service().call("PredictHeader", name="x").result == ""


def test_two_front_ends(workers: int, tmp_path: Path) -> None:
    running = served(tmp_path, workers, "--frontends", "2")
    channels = []
    try:
        for _ in range(24):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channels.append(grpc.insecure_channel(running.grpc, options))
            service = Reflected(channels[-1]).service()
            assert service.call("PredictAdd", a=1, b=2).result == 3
            assert [each.result for each in service.call("PredictGenerate", prompt="a b")] == ["a", "b"]
        assert all(spread(running, running.grpc_port))
        unload = httpx.post(f"{running.url}/v2/repository/models/add/unload", timeout=20)
        assert unload.status_code == 200
        for channel in channels:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"/{NAME}/PredictAdd")(b"\x08\x01", timeout=20)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    finally:
        for channel in channels:
            channel.close()
        assert running.stop() == 0, running.text()


LOCKED = """
from inferstream import App

app = App()


@app.model
def add(a: int, b: int) -> int:
    return 10 * a + b
"""


def test_field_numbers_come_from_lock_file(workers: int, tmp_path: Path) -> None:
    fields = {"b": {"number": 1, "type": "int64"}, "a": {"number": 7, "type": "int64"}}
    (tmp_path / "app").mkdir()
    lock = tmp_path / "app" / "typed_app.app.proto-lock.json"
    lock.write_text(json.dumps({"requests": {"add": fields}}))
    running = served(tmp_path, workers, code=LOCKED)
    try:
        with grpc.insecure_channel(running.grpc) as channel:
            found = channel.unary_unary(f"/{NAME}/PredictAdd")(b"\x08\x02\x38\x01", timeout=20)
            assert found == b"\x08\x0c"
    finally:
        assert running.stop() == 0, running.text()


def test_changed_field_type_aborts_startup(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "typed_app.py").write_text(LOCKED)
    run = [*SERVER, "proto", "typed_app:app"]
    assert subprocess.run(run, cwd=folder, timeout=60, check=False).returncode == 0
    (folder / "typed_app.py").write_text(LOCKED.replace("a: int", "a: str"))
    for command in ([*run, "--check"], [*SERVER, "start", "typed_app.py"]):
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 1
        [line] = ran.stderr.splitlines()
        assert 'model "add": argument "a" was int64 and is now string' in line


def test_protoc_client_reads_exported_file(typed: Running, tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    shutil.copy(APP, tmp_path / "typed_app.py")
    run = [*SERVER, "proto", "typed_app:app", "--output-dir", "out"]
    assert subprocess.run(run, cwd=tmp_path, timeout=60, check=False).returncode == 0
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-Iout", "--python_out=.", "--grpc_python_out=."]
    assert (
        subprocess.run([*protoc, "out/typed_app.proto"], cwd=tmp_path, timeout=60, check=False).returncode
        == 0
    )
    code = """if True:
        import sys, grpc, typed_app_pb2 as pb, typed_app_pb2_grpc as rpcs
        with grpc.insecure_channel(sys.argv[1]) as channel:
            stub = rpcs.AppStub(channel)
            print(stub.PredictAdd(pb.AddRequest(a=1, b=5)).result)
            print(*(each.result for each in stub.PredictGenerate(pb.GenerateRequest(prompt="x y"))))
            print(stub.PredictTotal(iter([pb.TotalRequest(numbers=2), pb.TotalRequest(numbers=3)])).result)
    """
    ran = subprocess.run(
        [sys.executable, "-c", code, typed.grpc],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.split() == ["6", "x", "y", "5"]
