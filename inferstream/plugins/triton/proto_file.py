"""`grpc_service.proto`: the protocol file with the stream response type that Triton clients expect."""

_DECLARED = "rpc ModelStreamInfer(stream ModelInferRequest) returns (stream ModelInferResponse);"
_OURS = "rpc ModelStreamInfer(stream ModelInferRequest) returns (stream ModelStreamInferResponse);"
_CHOICE = "as declared\n  // here, in MLServer's dialect, or ModelStreamInferResponse in Triton's."
_OUR_CHOICE = (
    "in MLServer's\n  // dialect, or ModelStreamInferResponse, as declared here, in Triton's. Send the metadata\n"
    "  // `x-stream-dialect: triton` with this file."
)


def grpc_service(declared: str) -> str:
    """Return the proto file for Triton clients, derived from the text of the standard one."""
    return declared.replace(_DECLARED, _OURS).replace(_CHOICE, _OUR_CHOICE)
