"""The protocol's gRPC messages, in a descriptor pool of their own.

Triton's, KServe's and MLServer's clients define messages of the same full names, as grpcio-health-checking and
grpcio-reflection do of gRPC's own services. In protobuf's default pool the second one imported would fail, and
model code may well import one of them.
"""

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"
LEGACY_SERVICE = f"{PACKAGE}.model_repository.ModelRepositoryService"
"""MLServer's older home of the repository's RPCs, with the same names and messages."""

POOL = DescriptorPool()
for _name in ("dataplane.binpb", "standard.binpb"):
    for _file in FileDescriptorSet.FromString((files(__package__) / _name).read_bytes()).file:
        POOL.Add(_file)


def _message(name: str) -> Any:
    return GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


InferParameter = _message("InferParameter")
InferTensorContents = _message("InferTensorContents")
ModelInferRequest = _message("ModelInferRequest")
ModelInferResponse = _message("ModelInferResponse")
ModelMetadataRequest = _message("ModelMetadataRequest")
ModelMetadataResponse = _message("ModelMetadataResponse")
ModelReadyRequest = _message("ModelReadyRequest")
ModelReadyResponse = _message("ModelReadyResponse")
ModelRepositoryParameter = _message("ModelRepositoryParameter")
ModelStreamInferResponse = _message("ModelStreamInferResponse")
RepositoryIndexRequest = _message("RepositoryIndexRequest")
RepositoryIndexResponse = _message("RepositoryIndexResponse")
RepositoryModelLoadRequest = _message("RepositoryModelLoadRequest")
RepositoryModelLoadResponse = _message("RepositoryModelLoadResponse")
RepositoryModelUnloadRequest = _message("RepositoryModelUnloadRequest")
RepositoryModelUnloadResponse = _message("RepositoryModelUnloadResponse")
ServerLiveRequest = _message("ServerLiveRequest")
ServerLiveResponse = _message("ServerLiveResponse")
ServerMetadataRequest = _message("ServerMetadataRequest")
ServerMetadataResponse = _message("ServerMetadataResponse")
ServerReadyRequest = _message("ServerReadyRequest")
ServerReadyResponse = _message("ServerReadyResponse")
