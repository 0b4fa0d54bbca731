"""The base class of gRPC services, whose methods are RPCs with an access check."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from google.protobuf.descriptor import ServiceDescriptor

from ...dataplane.access import Action


class RpcService:
    """Base class of a gRPC service. Each RPC is a method with the same name.

    A unary RPC accepts a request and an `RpcContext`, and returns a message or its bytes. A streaming RPC
    accepts an `RpcExchange`.
    """

    descriptor: ClassVar[ServiceDescriptor]
    aliases: ClassVar[Sequence[str]] = ()
    """Alternative full names of the service, with the same messages."""

    actions: ClassVar[Mapping[str, Action]]
    """The operation that each RPC's access check requires. RPCs without one are not served."""

    own_checks: ClassVar[Sequence[str]] = ()
    """RPCs that run the access check themselves, once they know the model."""

    of_models: ClassVar[bool] = True
    """Whether the name in a request is a model name."""

    needs_start: ClassVar[bool] = True
    """Whether its RPCs return UNAVAILABLE until the server has started."""

    @property
    def names(self) -> Sequence[str]:
        return self.descriptor.full_name, *self.aliases
