"""The RPC `shout.Shout/Count`."""

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import Default
from google.protobuf.empty_pb2 import DESCRIPTOR as EMPTY
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import DESCRIPTOR as WRAPPERS
from google.protobuf.wrappers_pb2 import Int64Value

from inferstream.ext.calls import Action, ServerModels
from inferstream.ext.rpc import RpcContext, RpcService

from .count import Shouts

FILE = FileDescriptorProto(name="shout.proto", package="shout", dependency=[EMPTY.name, WRAPPERS.name])
FILE.service.add(name="Shout").method.add(
    name="Count", input_type=".google.protobuf.Empty", output_type=".google.protobuf.Int64Value"
)
Default().AddSerializedFile(FILE.SerializeToString())


class ShoutService(RpcService):
    descriptor = Default().FindServiceByName("shout.Shout")
    actions = {"Count": Action.STATISTICS}
    of_models = False

    def __init__(self, dataplane: ServerModels, *_: object) -> None:
        self._shouts = dataplane.of(Shouts)

    async def Count(self, request: Empty, context: RpcContext) -> Int64Value:
        return Int64Value(value=await self._shouts.total())
