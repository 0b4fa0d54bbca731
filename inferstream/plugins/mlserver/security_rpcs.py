"""The RPC that reports the trusted runtimes."""

from typing import Any

from google.protobuf.message import Message

from inferstream.ext.calls import Action
from inferstream.ext.rpc import METHODS, RpcContext, RpcService

from . import messages
from .security import describe_security


class RuntimeSecurityService(RpcService):
    """The RPC of the report."""

    descriptor = METHODS[0].containing_service
    actions = {"RuntimeSecurity": Action.SERVER_METADATA}
    of_models = False

    def __init__(self, *_: object) -> None:
        pass

    async def RuntimeSecurity(self, request: object, context: RpcContext) -> Message:
        report = describe_security()
        response: Any = messages.RuntimeSecurityResponse(mode=report.mode.value)
        if (names := report.allowed_model_implementations) is not None:
            response.allowed_model_implementations.SetInParent()  # An empty list is not an absent one.
            response.allowed_model_implementations.items.extend(names)
        filled: Message = response
        return filled
