"""A model's configuration in Triton's words."""

from types import SimpleNamespace
from typing import Any

from google.protobuf.json_format import ParseDict

from inferstream import ModelSettings
from inferstream.ext.calls import Described
from inferstream.ext.runtimes import Signature
from inferstream.plugins.triton.model_config import build_config
from inferstream.types import MetadataModelResponse, MetadataTensor
from tests.plugins.triton.messages import message_of


def tensor(name: str, *shape: int, datatype: str = "FP32", **parameters: object) -> MetadataTensor:
    return MetadataTensor(name=name, datatype=datatype, shape=[*shape], parameters=parameters or None)


def config(predict: bool = True, streams: bool = False, **settings: object) -> dict:
    inputs = [tensor("x", -1, 4), tensor("text", -1, datatype="BYTES", optional=True)]
    metadata = MetadataModelResponse(name="m", platform="", inputs=inputs, outputs=[tensor("y", -1, 2)])
    chosen = ModelSettings(implementation="a.B", **settings)
    capabilities: Any = SimpleNamespace(predict=predict, streams=streams, gathers=False)
    made = build_config(Described(Signature(), capabilities, chosen), metadata)
    ParseDict({"config": made}, message_of("ModelConfigResponse")())  # has no field that gRPC lacks
    return made


def test_shapes_are_complete_without_batching() -> None:
    made = config()
    assert made["max_batch_size"] == 0
    assert "dynamic_batching" not in made
    assert made["input"] == [
        {"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 4], "optional": False},
        {"name": "text", "data_type": "TYPE_STRING", "dims": [-1], "optional": True},
    ]
    assert made["output"][0]["dims"] == [-1, 2]
    assert made["instance_group"] == [{"name": "m_0", "kind": "KIND_CPU", "count": 1, "gpus": []}]


def test_batch_is_not_a_row_dimension() -> None:
    made = config(max_batch_size=8, max_batch_time=0.002, parallel_workers=2, devices=["0", "1"])
    assert made["max_batch_size"] == 8
    assert made["dynamic_batching"] == {"max_queue_delay_microseconds": 2000}
    assert [each["dims"] for each in made["input"]] == [[4], []]
    assert made["instance_group"] == [{"name": "m_0", "kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}]


def test_only_stream_only_model_is_decoupled() -> None:
    assert config()["model_transaction_policy"] == {"decoupled": False}
    assert config(streams=True)["model_transaction_policy"] == {"decoupled": False}
    assert config(predict=False, streams=True)["model_transaction_policy"] == {"decoupled": True}


def test_parsed_configuration_round_trips() -> None:
    read = {"max_batch_size": 4, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}]}
    made = config(parameters={"model_configuration": read})
    assert (made["max_batch_size"], made["input"]) == (4, read["input"])
    assert made["output"][0]["dims"] == [2]
    assert "dynamic_batching" not in made
