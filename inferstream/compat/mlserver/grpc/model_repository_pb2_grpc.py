"""Client stubs and servicers of the older home of the repository's RPCs."""

from inferstream.protos.dataplane_pb2_grpc import (
    ModelRepositoryServiceServicer,
    ModelRepositoryServiceStub,
    add_ModelRepositoryServiceServicer_to_server,
)

__all__ = [
    "ModelRepositoryServiceServicer",
    "ModelRepositoryServiceStub",
    "add_ModelRepositoryServiceServicer_to_server",
]
