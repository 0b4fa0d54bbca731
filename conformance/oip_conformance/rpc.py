"""A gRPC client for the test cases."""

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .messages import message
from .outcome import Difference, Skip, short

SERVICE = "/inference.GRPCInferenceService/"


class Refused(Exception):
    """The status of a call that did not return OK."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.code: grpc.StatusCode = error.code()
        self.details: str = error.details() or ""
        super().__init__(f"{self.code.name}: {self.details}")


class Rpc:
    """A gRPC client of one server."""

    def __init__(self, address: str, timeout: float) -> None:
        self._channel = grpc.insecure_channel(address)
        self._timeout = timeout

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def attempt(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Return the response of a unary call. Raises Refused if the status is not OK."""
        asked = message(f"{method}Request")(**fields) if request is None else request
        call = self._channel.unary_unary(
            SERVICE + method,
            request_serializer=lambda asked: asked.SerializeToString(),
            response_deserializer=lambda data: data,
        )
        try:
            data = call(asked, timeout=self._timeout)
        except grpc.RpcError as error:
            raise Refused(error) from error
        return decode(f"{method}Response", data)

    def call(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Return the response of a unary call. Raises Difference if the status is not OK."""
        try:
            return self.attempt(method, request, **fields)
        except Refused as error:
            raise Difference(f"{method}: expected OK, got {error}") from error

    def refusal(self, method: str, request: Any = None, **fields: Any) -> Refused:
        """Return the status of a unary call, which must not be OK."""
        try:
            response = self.attempt(method, request, **fields)
        except Refused as error:
            return error
        raise Difference(f"{method}: expected a status other than OK, got a response: {short(str(response))}")

    def stream(self, requests: Sequence[Any]) -> tuple[list[bytes], Refused | None]:
        """Send all requests to ModelStreamInfer. Returns all responses, and the status unless it is OK."""
        call = self._channel.stream_stream(
            f"{SERVICE}ModelStreamInfer",
            request_serializer=lambda asked: asked.SerializeToString(),
            response_deserializer=lambda data: data,
        )
        responses: list[bytes] = []
        try:
            responses.extend(call(iter(requests), timeout=self._timeout))
        except grpc.RpcError as error:
            refused = Refused(error)
            if refused.code is grpc.StatusCode.UNIMPLEMENTED:
                raise Skip("the server has no ModelStreamInfer") from error
            return responses, refused
        return responses, None


def decode(name: str, data: bytes) -> Any:
    """Parse a message. Raises Difference if the bytes are invalid."""
    try:
        return message(name).FromString(data)
    except DecodeError as error:
        raise Difference(f"expected a {name}, got {short(data)}") from error
