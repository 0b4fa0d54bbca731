"""How closely requests and responses are held against the declaration, and whose fault a wrong response is."""

import json
from collections.abc import Iterator

import grpc
import httpx
import pytest

from inferstream.protos.converters import ModelInferRequestConverter
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.types import InferenceRequest
from tests.serving import Running, tensor, write_model

TYPED = """
from collections.abc import AsyncIterator, Iterator

from inferstream import MLModel
from inferstream.codecs import decode_args


class Typed(MLModel):
    @decode_args
    async def predict(self, x: list[str]) -> list[str]:
        return made(x)

    @decode_args
    async def predict_stream(self, x: list[str]) -> AsyncIterator[list[str]]:
        yield made(x)


class Blocking(MLModel):
    @decode_args
    def predict(self, x: list[str]) -> list[str]:
        return made(x)

    @decode_args
    def predict_stream(self, x: list[str]) -> Iterator[list[str]]:
        yield made(x)


def made(x):
    return 7.5 if x == ["wrong"] else x
"""

PLAIN = """
from inferstream import MLModel
from inferstream.types import InferenceResponse, ResponseOutput


class Plain(MLModel):
    async def predict(self, payload):
        return self.answer(payload)

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield self.answer(payload)

    def answer(self, payload):
        output = ResponseOutput(name="y", shape=[2], datatype=payload.id, data=[1, 2])
        return InferenceResponse(model_name=self.name, outputs=[output])
"""

DECLARED = {
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [-1]},
        {"name": "z", "datatype": "FP32", "shape": [-1]},
        {"name": "o", "datatype": "FP32", "shape": [-1], "parameters": {"optional": True}},
    ],
    "outputs": [{"name": "y", "datatype": "INT32", "shape": [2]}],
}
MISSING = [tensor("x", "FP32", [1.0])]
UNDECLARED = [*MISSING, tensor("z", "FP32", [1.0]), tensor("other", "INT8", [1])]
NESTED = [*MISSING, tensor("z", "FP32", [1.0], [1, 1])]
EXACT = [*MISSING, tensor("z", "FP32", [1.0])]


def write_folder(root, **settings) -> object:
    names = [{"name": "words", "datatype": "BYTES", "shape": [-1]}]
    write_model(root, "typed", "typed.Typed", TYPED)
    write_model(root, "named", "typed.Typed", TYPED, outputs=names)
    write_model(root, "blocking", "typed.Blocking", TYPED)
    write_model(root, "auto", "plain.Plain", PLAIN, **DECLARED)
    write_model(root, "strict", "plain.Plain", PLAIN, input_validation="strict", **DECLARED)
    write_model(root, "off", "plain.Plain", PLAIN, input_validation="off", **DECLARED)
    theirs = PLAIN.replace("from inferstream import", "from mlserver import").replace("payload.id", '"INT32"')
    write_model(root, "theirs", "theirs.Plain", theirs, **DECLARED)
    write_model(root, "theirs-strict", "theirs.Plain", theirs, input_validation="strict", **DECLARED)
    write_model(root, "theirs-undeclared", "theirs.Plain", theirs, input_validation="strict")
    (root / "settings.json").write_text(json.dumps(settings))
    return root


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(write_folder(tmp_path_factory.mktemp("v") / "models", parallel_workers=workers))
    yield running
    assert running.stop() == 0, running.text()


def ask(served: Running, model: str, inputs: list[dict], way: str, id: str = "INT32") -> tuple[int, str]:
    """The HTTP status, or what stands for it over gRPC, and what is said with it."""
    request = {"id": id, "inputs": inputs}
    if way != "grpc":
        answer = served.infer(model, request, way)
        return answer.status_code, answer.text
    message = ModelInferRequestConverter.from_types(InferenceRequest.model_validate(request), model)
    with grpc.insecure_channel(served.grpc) as channel:
        try:
            answer = GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=20)
        except grpc.RpcError as error:
            status = {grpc.StatusCode.INVALID_ARGUMENT: 400, grpc.StatusCode.INTERNAL: 500}[error.code()]
            return status, error.details()
    return 200, str(answer)


WAYS = pytest.mark.parametrize("way", ["infer", "infer_stream", "grpc"])


@WAYS
@pytest.mark.parametrize("model", ["typed", "blocking"])
def test_unencodable_value_is_logged_model_failure(served: Running, model: str, way: str) -> None:
    message = "No output type found at position 0 for a payload of type float"
    logged = served.text().count(message)
    status, said = ask(served, model, [tensor("x", "BYTES", ["wrong"])], way)
    assert status == 500
    assert message in said
    assert served.text().count(message) > logged
    assert ask(served, model, [tensor("x", "BYTES", ["right"])], way)[0] == 200


@WAYS
@pytest.mark.parametrize("model", ["typed", "blocking"])
def test_missing_argument_is_client_error(served: Running, model: str, way: str) -> None:
    assert ask(served, model, [tensor("other", "BYTES", ["a"])], way)[0] == 400
    assert ask(served, model, [], way)[0] == 400


@pytest.mark.parametrize(("model", "name"), [("typed", "output-0"), ("named", "words")])
@WAYS
def test_signature_values_have_declared_names(served: Running, model: str, name: str, way: str) -> None:
    status, said = ask(served, model, [tensor("x", "BYTES", ["a"])], way)
    assert status == 200
    assert f'"{name}"' in said


@WAYS
@pytest.mark.parametrize(
    ("model", "inputs", "status"),
    [
        ("auto", EXACT, 200),
        ("auto", MISSING, 200),
        ("auto", UNDECLARED, 200),
        ("auto", NESTED, 200),
        ("auto", [tensor("x", "FP64", [1.0])], 400),
        ("auto", [tensor("x", "FP32", [1.0] * 4, [2, 2, 1])], 400),
        ("auto", [tensor("other", "FP32", [1.0], [2])], 400),
        ("strict", EXACT, 200),
        ("strict", MISSING, 400),
        ("strict", UNDECLARED, 400),
        ("strict", NESTED, 400),
        ("off", MISSING, 200),
        ("off", [tensor("x", "BYTES", ["a"], [7])], 200),
    ],
)
def test_requests_are_validated_as_configured(
    served: Running, model: str, inputs: list[dict], status: int, way: str
) -> None:
    found, said = ask(served, model, inputs, way)
    assert found == status, said


@WAYS
@pytest.mark.parametrize(("model", "status"), [("auto", 200), ("strict", 500), ("off", 200)])
def test_outputs_are_validated_as_configured(served: Running, model: str, status: int, way: str) -> None:
    found, said = ask(served, model, EXACT, way, "INT64")
    assert found == status, said
    difference = "it is declared as INT32 [2], got INT64 [2]"
    assert (difference in said) == (status == 500)
    # Each process warns once.
    warned = f'model auto, output "y": {difference}'
    assert served.text().count(warned) <= 2
    assert model != "auto" or warned in served.text()
    assert ask(served, model, EXACT, way, "INT32")[0] == 200


@pytest.mark.parametrize("way", ["infer", "infer_stream"])
@pytest.mark.parametrize(
    ("model", "status"), [("theirs", 200), ("theirs-strict", 400), ("theirs-undeclared", 400)]
)
def test_strict_checks_requested_outputs_of_mlserver_models(
    served: Running, model: str, status: int, way: str
) -> None:
    request = {"inputs": EXACT, "outputs": [{"name": "nope"}]}
    refused = served.infer(model, request, way)
    assert refused.status_code == status, refused.text
    said = '"y"' if status == 200 else "is not one of the model's outputs: y"
    assert said in refused.text
    assert served.infer(model, {**request, "outputs": [{"name": "y"}]}, way).status_code == 200


def test_triton_status_profile_is_strict_by_default(serve, tmp_path) -> None:
    running = serve(write_folder(tmp_path / "models", status_profile="triton"))
    assert ask(running, "auto", MISSING, "infer")[0] == 400
    assert ask(running, "off", MISSING, "infer")[0] == 200


def test_unknown_value_lists_known_ones(start, tmp_path) -> None:
    write_model(tmp_path / "models", "wrong", "plain.Plain", PLAIN, input_validation="loose")
    write_model(tmp_path / "models", "old", "plain.Plain", PLAIN, input_validation="lenient", **DECLARED)
    running = start(tmp_path / "models")
    assert "'auto', 'declared', 'strict' or 'off'" in running.text()
    assert ask(running, "old", MISSING, "infer")[0] == 200
    index = httpx.post(f"{running.url}/v2/repository/index", json={}).json()
    assert {entry["name"]: entry["state"] for entry in index}["old"] == "READY"
