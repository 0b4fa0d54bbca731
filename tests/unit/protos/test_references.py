"""Requests whose tensors refer to their data, as they are read."""

import orjson
import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.grpc import parse_request, parse_response, wants_typed_contents
from inferstream.protos.json_requests import build_request
from inferstream.protos.json_responses import IN_JSON
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput, TensorData

PLACE = {"shared_memory_region": "r", "shared_memory_byte_size": 8}


def read(references: bool, tail: memoryview | None = None, **more: object) -> InferenceRequest:
    document = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "parameters": PLACE}], **more}
    return build_request(document, orjson.dumps(document), tail, references=references)[0]


def message(raws: list[bytes], **more: object) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name="m", raw_input_contents=raws, **more)
    for name in ("x", "y"):
        tensor = request.inputs.add(name=name, datatype="FP16", shape=[2])
        if name == "x":
            tensor.parameters["shared_memory_region"].string_param = "r"
            tensor.parameters["shared_memory_byte_size"].int64_param = 4
    return request


def test_request_with_unresolved_data_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="single requests of V2"):
        read(references=False)
    outputs = [{"name": "y", "parameters": PLACE}]
    inputs = [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]
    with pytest.raises(InvalidRequest, match="single requests of V2"):
        read(references=False, inputs=inputs, outputs=outputs)
    with pytest.raises(InvalidRequest, match="single requests of V2"):
        parse_request(message([b"\0" * 4]))
    wanted = pb.ModelInferRequest(model_name="m")
    wanted.outputs.add(name="y").parameters["shared_memory_region"].string_param = "r"
    with pytest.raises(InvalidRequest, match="single requests of V2"):
        parse_request(wanted)
    assert parse_request(wanted, references=True).references == ("shared_memory_region",)


def test_referencing_tensor_has_no_values_yet() -> None:
    request = read(references=True)
    (tensor,) = request.inputs
    assert request.references == ("shared_memory_region",)
    assert dict(tensor.parameters.items()) == PLACE
    assert tensor.data.flat() == []


@pytest.mark.parametrize("references", [False, True])
def test_other_parameters_are_not_references(references: bool) -> None:
    tensor = {"name": "x", "shape": [2], "datatype": "FP32", "parameters": {"region": "r"}}
    with pytest.raises(InvalidRequest, match='input "x": data is missing'):
        read(references, inputs=[tensor])
    assert read(references, inputs=[tensor | {"data": [1, 2]}]).references == ()


def test_binary_data_belongs_to_the_other_inputs() -> None:
    binary = {"name": "y", "shape": [1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}
    bare = {"name": "x", "shape": [2], "datatype": "FP32", "parameters": PLACE}
    request = read(True, memoryview(b"\0\0\x80?"), inputs=[bare, binary])
    assert request.inputs[1].data.flat() == [1.0]


def test_raw_contents_belong_to_the_other_inputs() -> None:
    x, y = parse_request(message([b"\x00\x3c\x00\x40"]), references=True).inputs
    assert (x.data.to_raw("FP16"), bytes(y.data.to_raw("FP16"))) == (b"", b"\x00\x3c\x00\x40")
    with pytest.raises(InvalidRequest, match="2 inputs come with 3 raw_input_contents"):
        parse_request(message([b""] * 3), references=True)


def test_values_and_reference_are_mutually_exclusive() -> None:
    inputs = [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1], "parameters": PLACE}]
    for references in (False, True):
        with pytest.raises(InvalidRequest, match="shared_memory_region excludes data"):
            read(references, inputs=inputs)


def test_references_over_grpc() -> None:
    typed = message([])
    typed.inputs[0].contents.fp32_contents.extend([1, 2])
    typed.inputs[1].datatype = "FP32"
    typed.inputs[1].contents.fp32_contents.extend([1, 2])
    for both in (typed, message([b"\0" * 4] * 2)):
        for references in (False, True):
            with pytest.raises(
                InvalidRequest, match="shared_memory_region excludes contents and raw contents"
            ):
                parse_request(both, references=references)
    x, _ = parse_request(message([b"", b"\0" * 4]), references=True).inputs  # an entry for each, some empty
    assert x.data.to_raw("FP16") == b""


def test_raw_response_requires_a_request_without_typed_contents() -> None:
    assert not wants_typed_contents(message([]))
    typed = message([])
    typed.inputs[1].contents.fp32_contents.extend([1, 2])
    assert wants_typed_contents(typed)


def test_output_stored_elsewhere_has_parameters_and_no_data() -> None:
    parameters = Parameters(shared_memory_region="r")
    y = ResponseOutput.of("y", [2], "FP32", TensorData.elsewhere(), parameters)
    text, blobs = InferenceResponse(model_name="m", outputs=[y]).accept(IN_JSON)
    (output,) = orjson.loads(text)["outputs"]
    assert output == {
        "name": "y",
        "shape": [2],
        "datatype": "FP32",
        "parameters": {"shared_memory_region": "r"},
    }
    assert blobs == []


def test_client_reads_outputs_without_data() -> None:
    sent = pb.ModelInferResponse(model_name="m")
    sent.outputs.add(name="y", datatype="FP32", shape=[2]).parameters[
        "shared_memory_region"
    ].string_param = "r"
    (output,) = parse_response(sent).outputs
    assert output.data.to_raw("FP32") == b""
    sent.outputs[0].ClearField("parameters")
    with pytest.raises(InvalidRequest, match='output "y": it has neither contents nor raw contents'):
        parse_response(sent)


def test_client_loads_no_extensions_for_output_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("a client asks for references")

    monkeypatch.setattr("inferstream.protos.references.references", fail)
    sent = pb.ModelInferResponse(model_name="m", raw_output_contents=[b"\0" * 4])
    sent.outputs.add(name="y", datatype="FP32", shape=[1]).parameters["unit"].string_param = "mm"
    (output,) = parse_response(sent).outputs
    assert output.data.to_raw("FP32") == b"\0" * 4
    assert output.parameters.get("unit") == "mm"
