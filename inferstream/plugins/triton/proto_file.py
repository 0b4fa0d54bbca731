"""`grpc_service.proto`: the protocol's file with the response type that Triton's clients expect of a stream."""

_DECLARED = "rpc ModelStreamInfer(stream ModelInferRequest) returns (stream ModelInferResponse);"
_OURS = "rpc ModelStreamInfer(stream ModelInferRequest) returns (stream ModelStreamInferResponse);"
_CHOICE = "as declared\n  // here, in MLServer's dialect, or ModelStreamInferResponse in Triton's."
_OUR_CHOICE = (
    "in MLServer's\n  // dialect, or ModelStreamInferResponse, as declared here, in Triton's. Send the metadata\n"
    "  // `x-stream-dialect: triton` with this file."
)


def grpc_service(declared: str) -> str:
    """The text of the file, made of that of the protocol's own."""
    return declared.replace(_DECLARED, _OURS).replace(_CHOICE, _OUR_CHOICE)
