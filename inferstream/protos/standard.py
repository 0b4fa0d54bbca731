"""The messages of gRPC's own services, health and reflection, in the pool of the protocol's.

No generated module is imported for them: one that was generated for a newer protobuf refuses an older one, and the
server could not start beside a package that holds protobuf back.
"""

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from .messages import POOL

HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""The names of the reflection service. The messages of both are the same on the wire: v1's serve both."""


def _message(name: str) -> Any:
    return GetMessageClass(POOL.FindMessageTypeByName(f"grpc.{name}"))


HealthCheckRequest = _message("health.v1.HealthCheckRequest")
HealthCheckResponse = _message("health.v1.HealthCheckResponse")
HealthListRequest = _message("health.v1.HealthListRequest")
HealthListResponse = _message("health.v1.HealthListResponse")

ErrorResponse = _message("reflection.v1.ErrorResponse")
ExtensionNumberResponse = _message("reflection.v1.ExtensionNumberResponse")
FileDescriptorResponse = _message("reflection.v1.FileDescriptorResponse")
ListServiceResponse = _message("reflection.v1.ListServiceResponse")
ServerReflectionRequest = _message("reflection.v1.ServerReflectionRequest")
ServerReflectionResponse = _message("reflection.v1.ServerReflectionResponse")
