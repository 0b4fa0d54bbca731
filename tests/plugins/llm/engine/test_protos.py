"""Our copy of the engine protocol has the field numbers and types of the published one."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

pytest.importorskip("grpc")

from inferstream.plugins.llm.engine import protos

FOLDER = Path(protos.__file__).parent
POOL = DescriptorPool()
[OURS] = FileDescriptorSet.FromString((FOLDER / "vllm_engine.binpb").read_bytes()).file
POOL.Add(OURS)

THEIRS = {
    "Prompt": "TokenizedInput",
    "Choices": "ChoiceConstraint",
    "Sampling": "SamplingParams",
    "Generate": "GenerateRequest",
    "TopLogprobs": "TopLogProbs",
    "OutputLogprobs": "OutputLogProbs",
    "PromptLogprob": "InputTokenLogProb",
    "PromptLogprobs": "InputLogProbs",
    "Chunk": "GenerateStreamChunk",
    "Complete": "GenerateComplete",
    "Generated": "GenerateResponse",
    "Health": "HealthCheckResponse",
    "ModelInfo": "GetModelInfoResponse",
    "ServerInfo": "GetServerInfoResponse",
    "Load": "SchedulerLoad",
    "Loads": "GetLoadsResponse",
}
"""The names of the published messages."""

RPCS = {
    "Generate": ("GenerateRequest", "GenerateResponse"),
    "HealthCheck": ("HealthCheckRequest", "HealthCheckResponse"),
    "GetModelInfo": ("GetModelInfoRequest", "GetModelInfoResponse"),
    "GetServerInfo": ("GetServerInfoRequest", "GetServerInfoResponse"),
    "GetLoads": ("GetLoadsRequest", "GetLoadsResponse"),
    "GetTokenizer": ("GetTokenizerRequest", "GetTokenizerChunk"),
}


def fields(message: Any) -> dict[str, tuple[Any, ...]]:
    """What the bytes of each field of a message depend on."""
    described = DescriptorProto()
    message.CopyToProto(described)
    choices = [each.name for each in described.oneof_decl]
    entries = [(each.number, each.type) for nested in described.nested_type for each in nested.field]
    return {
        each.name: (
            *(each.number, each.type, each.label, each.proto3_optional),
            choices[each.oneof_index] if each.HasField("oneof_index") else None,
            entries if each.type_name.endswith("Entry") else [],
            each.type_name.rpartition(".")[2],
        )
        for each in described.field
    }


def ours(name: str) -> Any:
    return POOL.FindMessageTypeByName(f"inferstream.engine.{name}")


def test_field_numbers_equal_published_ones() -> None:
    pytest.importorskip("smg_grpc_proto", reason="needs smg-grpc-proto")
    published = import_module("smg_grpc_proto.generated.vllm_engine_pb2").DESCRIPTOR.message_types_by_name
    tokenizer = import_module("smg_grpc_proto.generated.common_pb2").DESCRIPTOR.message_types_by_name
    pairs = [(name, published[other]) for name, other in THEIRS.items()]
    for name, theirs in [*pairs, ("TokenizerPart", tokenizer["GetTokenizerChunk"])]:
        expected = fields(theirs)
        for field, (*form, kind) in fields(ours(name)).items():
            assert field in expected, f"{name}.{field} is gone"
            assert expected[field] == (*form, THEIRS.get(kind, kind)), f"{name}.{field}"


def test_rpcs_equal_published_ones() -> None:
    pytest.importorskip("smg_grpc_proto", reason="needs smg-grpc-proto")
    module = import_module("smg_grpc_proto.generated.vllm_engine_pb2")
    service = module.DESCRIPTOR.services_by_name["VllmEngine"]
    assert service.full_name == "vllm.grpc.engine.VllmEngine"
    for name, (request, reply) in RPCS.items():
        method = service.methods_by_name[name]
        assert (method.input_type.name, method.output_type.name) == (request, reply)


def test_every_message_is_compared() -> None:
    assert {each.name for each in OURS.message_type} == {*THEIRS, "Empty", "TokenizerPart"}


@pytest.mark.parametrize("name", ["openengine", "vllm_engine", "vllm_inference"])
def test_descriptors_match_proto_file(name: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    out = tmp_path / "out.binpb"
    command = ["-m", "grpc_tools.protoc", "-I", str(FOLDER), f"{name}.proto", f"--descriptor_set_out={out}"]
    subprocess.run([sys.executable, *command], check=True, timeout=60)
    assert out.read_bytes() == (FOLDER / f"{name}.binpb").read_bytes(), "run `make protos`"
