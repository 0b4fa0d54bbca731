"""Messages of the public gRPC protocol, built from a table of field names and numbers.

The table matches `open_inference_grpc.proto` and the `grpc_service.proto` of Triton. The messages are in a
separate descriptor pool, so that they do not conflict with other copies in the same process.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_TENSOR = "name:string=1 datatype:string=2 shape:int64*=3 parameters:InferParameter%=4 contents:InferTensorContents=5"
_PARAMETER = "bool_param:bool|1 int64_param:int64|2 string_param:string|3"
_DURATIONS = "compute_input:StatisticDuration={} compute_infer:StatisticDuration={} compute_output:StatisticDuration={}"
TABLE = {
    "InferParameter": f"{_PARAMETER} double_param:double|4 uint64_param:uint64|5",
    "InferTensorContents": "bool_contents:bool*=1 int_contents:int32*=2 int64_contents:int64*=3 "
    "uint_contents:uint32*=4 uint64_contents:uint64*=5 fp32_contents:float*=6 fp64_contents:double*=7 "
    "bytes_contents:bytes*=8",
    "ServerLiveRequest": "",
    "ServerLiveResponse": "live:bool=1",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "ready:bool=1",
    "ModelReadyRequest": "name:string=1 version:string=2",
    "ModelReadyResponse": "ready:bool=1",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "name:string=1 version:string=2 extensions:string*=3",
    "ModelMetadataRequest": "name:string=1 version:string=2",
    "TensorMetadata": "name:string=1 datatype:string=2 shape:int64*=3",
    "ModelMetadataResponse": "name:string=1 versions:string*=2 platform:string=3 inputs:TensorMetadata*=4 "
    "outputs:TensorMetadata*=5",
    "Tensor": _TENSOR,
    "RequestedOutput": "name:string=1 parameters:InferParameter%=2",
    "ModelInferRequest": "model_name:string=1 model_version:string=2 id:string=3 parameters:InferParameter%=4 "
    "inputs:Tensor*=5 outputs:RequestedOutput*=6 raw_input_contents:bytes*=7",
    "ModelInferResponse": "model_name:string=1 model_version:string=2 id:string=3 parameters:InferParameter%=4 "
    "outputs:Tensor*=5 raw_output_contents:bytes*=6",
    "ModelStreamInferResponse": "error_message:string=1 infer_response:ModelInferResponse=2",
    "ModelRepositoryParameter": f"{_PARAMETER} bytes_param:bytes|4",
    "RepositoryIndexRequest": "repository_name:string=1 ready:bool=2",
    "ModelIndex": "name:string=1 version:string=2 state:string=3 reason:string=4",
    "RepositoryIndexResponse": "models:ModelIndex*=1",
    "RepositoryModelLoadRequest": "repository_name:string=1 model_name:string=2 parameters:ModelRepositoryParameter%=3",
    "RepositoryModelLoadResponse": "",
    "RepositoryModelUnloadRequest": "repository_name:string=1 model_name:string=2 "
    "parameters:ModelRepositoryParameter%=3",
    "RepositoryModelUnloadResponse": "",
    "StatisticDuration": "count:uint64=1 ns:uint64=2",
    "InferStatistics": "success:StatisticDuration=1 fail:StatisticDuration=2 queue:StatisticDuration=3 "
    + _DURATIONS.format(4, 5, 6),
    "InferBatchStatistics": "batch_size:uint64=1 " + _DURATIONS.format(2, 3, 4),
    "ModelStatistics": "name:string=1 version:string=2 last_inference:uint64=3 inference_count:uint64=4 "
    "execution_count:uint64=5 inference_stats:InferStatistics=6 batch_stats:InferBatchStatistics*=7",
    "ModelStatisticsRequest": "name:string=1 version:string=2",
    "ModelStatisticsResponse": "model_stats:ModelStatistics*=1",
}
"""`name:type=number` for each field.

`*` means repeated, `|` a member of a oneof, `%` a map with string keys.
"""


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="oip_conformance.proto", package="inference", syntax="proto3")
    for message, fields in TABLE.items():
        described = file.message_type.add(name=message)
        for field in fields.split():
            _describe(described, field)
    return file


def _describe(message: DescriptorProto, field: str) -> None:
    name, rest = field.split(":")
    choice, mapping, repeated = "|" in rest, "%" in rest, "*" in rest
    kind, number = rest.replace("|", "=").replace("%", "").replace("*", "").split("=")
    described = message.field.add(name=name, number=int(number), label=3 if repeated or mapping else 1)
    if mapping:
        entry = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        _describe(nested, "key:string=1")
        _describe(nested, f"value:{kind}=2")
        kind = f"{message.name}.{entry}"
    if mapping or kind in TABLE:
        described.type, described.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".inference.{kind}"
    else:
        described.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    if choice:
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        described.oneof_index = 0


_POOL = DescriptorPool()
_POOL.Add(_file())


def message(name: str) -> Any:
    """Return the class of a message."""
    return GetMessageClass(_POOL.FindMessageTypeByName(f"inference.{name}"))
