"""The base class of services: which RPCs an object serves, and the operation that each stands for."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from google.protobuf.descriptor import ServiceDescriptor

from ...dataplane.access import Action


class RpcService:
    """Serves RPCs of one service. Each is the method of its name.

    A unary one takes a request and an `RpcContext`, and returns a message or its bytes. Others take an `RpcExchange`.
    """

    descriptor: ClassVar[ServiceDescriptor]
    aliases: ClassVar[Sequence[str]] = ()
    """Other full names of the service, with the same messages."""

    actions: ClassVar[Mapping[str, Action]]
    """The operation that each RPC stands for, which is checked before it. An RPC without one is not served."""

    own_checks: ClassVar[Sequence[str]] = ()
    """RPCs that check the operation themselves, once they know the model that it concerns."""

    of_models: ClassVar[bool] = True
    """Whether the name in a request is that of a model."""

    needs_start: ClassVar[bool] = True
    """Whether its RPCs are UNAVAILABLE until the server has started."""

    @property
    def names(self) -> Sequence[str]:
        return self.descriptor.full_name, *self.aliases
