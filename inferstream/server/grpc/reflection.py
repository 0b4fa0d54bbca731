"""The standard reflection service: what grpcurl and its like ask a server for."""

from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection

from ...protos.messages import POOL, SERVICE
from .rpc import Exchange


class Reflection:
    """Describes our own services, out of the pool that holds them."""

    def __init__(self) -> None:
        POOL.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
        health = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        names = (SERVICE, health, reflection.SERVICE_NAME)
        self._library = reflection.aio.ReflectionServicer(names, pool=POOL)  # type: ignore[attr-defined]

    async def ServerReflectionInfo(self, exchange: Exchange) -> None:  # noqa: N802  # the RPC's name
        async for answer in self._library.ServerReflectionInfo(exchange, None):
            await exchange.write(answer.SerializeToString())
