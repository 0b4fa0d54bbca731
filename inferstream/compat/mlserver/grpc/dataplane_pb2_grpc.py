"""Client stubs and servicers."""

from inferstream.protos.dataplane_pb2_grpc import (
    GRPCInferenceServiceServicer,
    GRPCInferenceServiceStub,
    add_GRPCInferenceServiceServicer_to_server,
)

__all__ = [
    "GRPCInferenceServiceServicer",
    "GRPCInferenceServiceStub",
    "add_GRPCInferenceServiceServicer_to_server",
]
