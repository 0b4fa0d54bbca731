"""Messages and types convert into each other exactly, beside anybody else's protos."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.codecs import NumpyCodec
from inferstream.errors import InvalidOutput
from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.converters import ModelInferRequestConverter, ModelInferResponseConverter
from inferstream.protos.grpc import FIELDS
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
)
from inferstream.types.datatypes import DTYPES

HERE = Path(__file__).parents[3] / "inferstream" / "protos"


@pytest.mark.parametrize("use_raw", [True, False])
@pytest.mark.parametrize("datatype", [*DTYPES, "BYTES"])
def test_requests_and_responses_survive(datatype: str, use_raw: bool) -> None:
    if datatype not in FIELDS:
        use_raw = True
    data = ["a", "é"] if datatype == "BYTES" else [True, False] if datatype == "BOOL" else [1, 2]
    parameters = Parameters(content_type="np", flag=True, count=3, big=2**63, ratio=0.5, text="x")
    request = InferenceRequest(
        id="i",
        parameters=parameters,
        inputs=[RequestInput(name="x", shape=[2], datatype=datatype, data=data, parameters=parameters)],
    )
    sent = ModelInferRequestConverter.from_types(request, "m", None, use_raw)
    back = ModelInferRequestConverter.to_types(
        messages.ModelInferRequest.FromString(sent.SerializeToString())
    )
    expected = [b"a", "é".encode()] if datatype == "BYTES" else data
    assert back.inputs[0].data.root == expected
    assert back.parameters == parameters
    assert back.inputs[0].parameters == parameters

    response = InferenceResponse(
        model_name="m", outputs=[ResponseOutput(name="x", shape=[2], datatype=datatype, data=data)]
    )
    answered = ModelInferResponseConverter.from_types(response, use_raw)
    assert ModelInferResponseConverter.to_types(answered).outputs[0].data.root == expected
    assert bool(answered.raw_output_contents) == use_raw


@pytest.mark.parametrize("changed", [{"name": "\ud800"}, {"name": 5}, {"shape": [2**64]}])
def test_an_output_that_cannot_be_written_is_the_models_fault(changed: dict) -> None:
    output = ResponseOutput(name="x", shape=[1], datatype="FP32", data=[1]).model_copy(update=changed)
    response = InferenceResponse.model_construct(model_name="m", outputs=[output])

    with pytest.raises(InvalidOutput):
        ModelInferResponseConverter.from_types(response)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_raw_arrays_are_exact(values: list[float]) -> None:
    request = InferenceRequest(inputs=[NumpyCodec.encode_input("x", np.array(values, np.float32))])
    sent = ModelInferRequestConverter.from_types(request, "m", use_raw=True)
    assert (
        NumpyCodec.decode_input(ModelInferRequestConverter.to_types(sent).inputs[0]).reshape(-1).tolist()
        == values
    )


@pytest.mark.parametrize(
    "theirs", ["tritonclient.grpc", "grpc_health.v1.health_pb2, grpc_reflection.v1alpha.reflection"]
)
@pytest.mark.parametrize("order", ["{ours}, {theirs}", "{theirs}, {ours}"])
def test_other_peoples_protos_can_live_in_the_same_process(order: str, theirs: str) -> None:
    code = "import " + order.format(ours="inferstream.server.grpc.grpcio.handlers", theirs=theirs)
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


STANDARD = [
    f"grpc/{name}.proto"
    for name in ("health/v1/health", "reflection/v1/reflection", "reflection/v1alpha/reflection")
] + ["xds/service/orca/v3/orca.proto"]


@pytest.mark.parametrize(
    ("compiled", "folder", "sources"),
    [
        ("dataplane.binpb", HERE, ["dataplane.proto"]),
        ("requests.binpb", HERE, ["requests.proto"]),
        ("standard.binpb", HERE / "standard", STANDARD),
    ],
)
def test_each_descriptor_set_is_compiled_from_its_protos(
    tmp_path: Path, compiled: str, folder: Path, sources: list[str]
) -> None:
    out = tmp_path / "out.binpb"
    command = ["-m", "grpc_tools.protoc", "-I", str(folder), "--include_imports", *sources]
    subprocess.run([sys.executable, *command, f"--descriptor_set_out={out}"], check=True, timeout=60)
    assert out.read_bytes() == (HERE / compiled).read_bytes(), "run `make protos`"


STUBS = {
    "dataplane_pb2": ("", "dataplane.proto"),
    "health_pb2": ("standard/grpc/health/v1", "health.proto"),
    "requests_pb2": ("", "requests.proto"),
    "reflection_pb2": ("standard/grpc/reflection/v1", "reflection.proto"),
}


@pytest.mark.parametrize("name", STUBS)
def test_each_stub_is_written_from_its_proto(tmp_path: Path, name: str) -> None:
    folder, source = STUBS[name]
    command = ["-m", "grpc_tools.protoc", "-I", str(HERE / folder), f"--pyi_out={tmp_path}", source]
    subprocess.run([sys.executable, *command], check=True, timeout=60)
    written = (tmp_path / f"{name}.pyi").read_text()
    assert written == (HERE / f"{name}.pyi").read_text(), "run `make protos`"


@pytest.mark.parametrize("name", STUBS)
def test_each_module_has_what_its_stub_says(name: str) -> None:
    stub = ast.parse((HERE / f"{name}.pyi").read_text())
    assert missing_of(stub.body, import_module(f"inferstream.protos.{name}")) == []


def missing_of(stub: list[ast.stmt], owner: object) -> list[str]:
    """The names that a stub has and its module or class has not; fields are there in messages alone."""
    found = owner() if isinstance(owner, type) else owner
    names = [ast.unparse(each.target) for each in stub if isinstance(each, ast.AnnAssign)]
    missing = [f"{owner}: {name}" for name in names if not hasattr(found, name)]
    for each in stub:
        # The entry of a map is a class for its descriptor alone.
        if isinstance(each, ast.ClassDef) and not each.name.endswith("Entry"):
            missing += missing_of(each.body, getattr(owner, each.name))
    return missing
