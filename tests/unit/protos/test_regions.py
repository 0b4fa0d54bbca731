"""Requests whose tensors are in shared memory, as they are read."""

import orjson
import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.grpc import request_from
from inferstream.protos.json_requests import build_request
from inferstream.protos.regions import UsesRegions

PLACE = {"shared_memory_region": "r", "shared_memory_byte_size": 8}


def read(regions: bool, tail: memoryview | None = None, **more: object):
    document = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "parameters": PLACE}], **more}
    return build_request(document, orjson.dumps(document), tail, regions=regions)[0]


def message(raws: list[bytes], **more: object) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name="m", raw_input_contents=raws, **more)
    for name in ("x", "y"):
        tensor = request.inputs.add(name=name, datatype="FP16", shape=[2])
        if name == "x":
            tensor.parameters["shared_memory_region"].string_param = "r"
            tensor.parameters["shared_memory_byte_size"].int64_param = 4
    return request


def test_a_door_that_does_not_read_regions_refuses_them() -> None:
    with pytest.raises(UsesRegions, match="single requests of V2"):
        read(regions=False)
    outputs = [{"name": "y", "parameters": PLACE}]
    inputs = [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]
    with pytest.raises(UsesRegions):
        read(regions=False, inputs=inputs, outputs=outputs)
    with pytest.raises(UsesRegions):
        request_from(message([b"\0" * 4]))
    wanted = pb.ModelInferRequest(model_name="m")
    wanted.outputs.add(name="y").parameters["shared_memory_region"].string_param = "r"
    with pytest.raises(UsesRegions):
        request_from(wanted)


def test_a_tensor_in_a_region_has_no_values_yet() -> None:
    (tensor,) = read(regions=True).inputs
    assert dict(tensor.parameters.items()) == PLACE
    assert tensor.data.flat() == []


def test_raw_contents_are_those_of_the_other_inputs() -> None:
    x, y = request_from(message([b"\x00\x3c\x00\x40"]), regions=True).inputs
    assert (x.data.to_raw("FP16"), bytes(y.data.to_raw("FP16"))) == (b"", b"\x00\x3c\x00\x40")
    with pytest.raises(InvalidRequest, match="2 inputs come with 3 raw_input_contents"):
        request_from(message([b""] * 3), regions=True)


def test_values_and_a_region_exclude_each_other() -> None:
    inputs = [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1], "parameters": PLACE}]
    with pytest.raises(InvalidRequest, match="shared_memory_region excludes data"):
        read(regions=True, inputs=inputs)


def test_over_grpc_too() -> None:
    typed = message([])
    typed.inputs[0].contents.fp32_contents.extend([1, 2])
    typed.inputs[1].datatype = "FP32"
    typed.inputs[1].contents.fp32_contents.extend([1, 2])
    for both in (typed, message([b"\0" * 4] * 2)):
        with pytest.raises(UsesRegions):
            request_from(both)
        with pytest.raises(InvalidRequest, match="shared_memory_region excludes contents and raw contents"):
            request_from(both, regions=True)
    x, _ = request_from(message([b"", b"\0" * 4]), regions=True).inputs  # an entry for each, some empty
    assert x.data.to_raw("FP16") == b""
