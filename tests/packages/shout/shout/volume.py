"""How loud the answer to a call may be. A stage sets it, and each worker process reads it."""

from collections.abc import Awaitable

from inferstream import Settings
from inferstream.errors import PermissionDenied
from inferstream.ext.calls import Call, CallValue, Handler, Reply, WorkerEdge


class Volume(CallValue[int]):
    def pack(self, value: int) -> int:
        return value

    def unpack(self, packed: int) -> int:
        return packed


VOLUME = Volume("volume")


class Ear(WorkerEdge):
    """Refuses calls that nobody would hear."""

    @classmethod
    def of(cls, settings: Settings) -> bool:
        return True

    def call(self, handler: Handler) -> Handler:
        def listen(call: Call) -> Awaitable[Reply]:
            if VOLUME.get(call) == 0:
                raise PermissionDenied("too quiet")
            return handler(call)

        return listen
