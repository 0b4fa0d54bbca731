"""The messages of `openengine.v1`."""

from . import load_messages

_message = load_messages("openengine")

Abort = _message("Abort")
Empty = _message("Empty")
Generate = _message("Generate")
Generated = _message("Generated")
Health = _message("Health")
Load = _message("Load")
Loras = _message("Loras")
ModelInfo = _message("ModelInfo")
ServerInfo = _message("ServerInfo")

STOP, LENGTH, CANCELLED = 1, 2, 3
"""Values of the enumeration `FinishReason`."""

AGGREGATED = 1
"""Value of `EngineRole` for an engine that reads prompts and generates tokens."""

READY, DEGRADED = 2, 3
"""Values of `HealthState` with which an engine accepts requests."""

INVALID_ARGUMENT, UNSUPPORTED_FEATURE, MODEL_NOT_FOUND, OVERLOADED = 1, 2, 4, 5
ABORTED, DRAINING = 10, 11
"""Values of `ErrorCode`."""
