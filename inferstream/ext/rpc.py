"""gRPC services: RPCs and their errors."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..protos.converters import ModelInferRequestConverter as ModelInferRequestConverter
    from ..protos.converters import ModelInferResponseConverter as ModelInferResponseConverter
    from ..protos.dataplane_pb2 import ModelInferResponse as ModelInferResponse
    from ..protos.dataplane_pb2_grpc import METHODS as METHODS
    from ..protos.pool import SERVICE as SERVICE
    from ..protos.typed import PREFIX as TYPED_PREFIX
    from ..server.grpc.context import RpcContext as RpcContext
    from ..server.grpc.context import caller_of as caller_of
    from ..server.grpc.dialects.dialect import StreamDialect as StreamDialect
    from ..server.grpc.dialects.dialect import StreamExchange as StreamExchange
    from ..server.grpc.dialects.dialect import StreamRequest as StreamRequest
    from ..server.grpc.rpc import RpcExchange as RpcExchange
    from ..server.grpc.rpc import RpcFailed as RpcFailed
    from ..server.grpc.service import RpcService as RpcService
    from ..server.grpc.statuses import StatusCode as StatusCode

__all__ = [
    "METHODS",
    "ModelInferRequestConverter",
    "ModelInferResponse",
    "ModelInferResponseConverter",
    "RpcContext",
    "RpcExchange",
    "RpcFailed",
    "RpcService",
    "SERVICE",
    "StatusCode",
    "StreamDialect",
    "StreamExchange",
    "StreamRequest",
    "TYPED_PREFIX",
    "caller_of",
]

_NAMES = {
    "protos.converters": "ModelInferRequestConverter ModelInferResponseConverter",
    "protos.dataplane_pb2": "ModelInferResponse",
    "protos.dataplane_pb2_grpc": "METHODS",
    "protos.pool": "SERVICE",
    "protos.typed": "PREFIX=TYPED_PREFIX",
    "server.grpc.context": "RpcContext caller_of",
    "server.grpc.dialects.dialect": "StreamDialect StreamExchange StreamRequest",
    "server.grpc.rpc": "RpcExchange RpcFailed",
    "server.grpc.service": "RpcService",
    "server.grpc.statuses": "StatusCode",
}

__getattr__ = export(__name__, _NAMES)
