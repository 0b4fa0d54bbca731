"""Client stubs and servicers of the older home of the repository's RPCs."""

from inferstream.compat.machinery import stand_ins
from inferstream.protos.dataplane_pb2_grpc import (
    ModelRepositoryServiceServicer,
    ModelRepositoryServiceStub,
    add_ModelRepositoryServiceServicer_to_server,
)

__getattr__ = stand_ins(__name__)

__all__ = [
    "ModelRepositoryServiceServicer",
    "ModelRepositoryServiceStub",
    "add_ModelRepositoryServiceServicer_to_server",
]
