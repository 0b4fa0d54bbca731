"""The messages of `vllm.Inference` and `vllm.Control`."""

from . import load_messages

_message = load_messages("vllm_inference")

Abort = _message("Abort")
Empty = _message("Empty")
Generate = _message("Generate")
Generated = _message("Generated")
Loras = _message("Loras")
ModelInfo = _message("ModelInfo")
ServerInfo = _message("ServerInfo")

LENGTH, STOP, ABORTED = 1, 2, 3
"""Values of the enumeration `FinishReason`."""
