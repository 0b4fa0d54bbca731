"""Client stubs and servicers."""

from inferstream.compat.machinery import stand_ins
from inferstream.protos.dataplane_pb2_grpc import (
    GRPCInferenceServiceServicer,
    GRPCInferenceServiceStub,
    add_GRPCInferenceServiceServicer_to_server,
)

__getattr__ = stand_ins(__name__)

__all__ = [
    "GRPCInferenceServiceServicer",
    "GRPCInferenceServiceStub",
    "add_GRPCInferenceServiceServicer_to_server",
]
