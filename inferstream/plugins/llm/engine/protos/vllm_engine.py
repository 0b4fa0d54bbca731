"""The messages of `vllm.grpc.engine`."""

from . import load_messages

_message = load_messages("vllm_engine")

Empty = _message("Empty")
Generate = _message("Generate")
Generated = _message("Generated")
Health = _message("Health")
Loads = _message("Loads")
ModelInfo = _message("ModelInfo")
ServerInfo = _message("ServerInfo")
TokenizerPart = _message("TokenizerPart")
