"""Errors of inference over gRPC."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from grpc import StatusCode

from ..case import case, each
from ..messages import message
from ..outcome import Skip, expect, require
from ..rpc import Refused
from ..server import UNKNOWN, Server, raw_request, rpc_values, typed_request
from ..tensors import DATATYPES

Change = Callable[[Any], Any]
BAD_RAW: dict[str, Change] = {
    "typed-too": lambda request: request.inputs[0].contents.fp32_contents.append(1.5),
    "entry-empty": lambda request: _replace(request, b""),
    "fewer-bytes": lambda request: _replace(request, request.raw_input_contents[0][:-1]),
    "more-bytes": lambda request: _replace(request, request.raw_input_contents[0] + b"\0"),
    "unknown-datatype": lambda request: setattr(request.inputs[0], "datatype", "FP7"),
    "negative-shape": lambda request: request.inputs[0].shape.__setitem__(0, -3),
}
BAD_TYPED: dict[str, Change] = {
    "too-few-values": lambda request: request.inputs[0].contents.fp32_contents.pop(),
    "too-many-values": lambda request: request.inputs[0].contents.fp32_contents.append(1.5),
    "no-values": lambda request: request.inputs[0].ClearField("contents"),
    "another-field": lambda request: _other_field(request.inputs[0].contents),
}


@each(BAD_RAW)
def bad_raw_input_is_an_error(server: Server, which: str) -> None:
    request = raw_request(server.model("identity"), "FP32")
    BAD_RAW[which](request)
    server.rpc.refusal("ModelInfer", request)


@each(BAD_TYPED)
def bad_typed_input_is_an_error(server: Server, which: str) -> None:
    request = typed_request(server.model("identity"), "FP32")
    BAD_TYPED[which](request)
    server.rpc.refusal("ModelInfer", request)


@case
def errors_have_a_text(server: Server) -> None:
    refusal = server.rpc.refusal("ModelMetadata", name=UNKNOWN)
    require(bool(refusal.details), f"the status {refusal.code.name} has no text")


@case
def unknown_model_is_an_error(server: Server) -> None:
    request = raw_request(server.model("identity"), "FP32")
    request.model_name = UNKNOWN
    server.rpc.refusal("ModelInfer", request)


@case
def unknown_version_is_an_error(server: Server) -> None:
    server.rpc.refusal("ModelInfer", raw_request(server.model("identity"), "FP32", model_version="999999"))


@case
def unknown_output_is_an_error(server: Server) -> None:
    request = raw_request(_declaring(server), "FP32", "BYTES")
    request.outputs.append(message("RequestedOutput")(name="NO_SUCH"))
    server.rpc.refusal("ModelInfer", request)


@case
def missing_input_is_an_error(server: Server) -> None:
    server.rpc.refusal("ModelInfer", raw_request(_declaring(server), "FP32"))


@case
def unknown_method_is_unimplemented(server: Server) -> None:
    refusal = server.rpc.refusal("NoSuchMethod", message("ServerLiveRequest")())
    expect(refusal.code, StatusCode.UNIMPLEMENTED, "status of a method that there is not")


@case
def server_goes_on_after_errors(server: Server) -> None:
    model = server.model("identity")
    for change in BAD_RAW.values():
        request = raw_request(model, "FP32")
        change(request)
        with suppress(Refused):
            server.rpc.attempt("ModelInfer", request)
    response = server.rpc.call("ModelInfer", raw_request(model, "FP32"))
    expect(rpc_values(response), list(DATATYPES["FP32"].values), "values after errors")


def _replace(request: Any, data: bytes) -> None:
    request.raw_input_contents[0] = data


def _other_field(contents: Any) -> None:
    contents.ClearField("fp32_contents")
    contents.int64_contents.extend([1, 2, 3])


def _declaring(server: Server) -> Any:
    model = server.model("typed")
    if not model.inputs:
        raise Skip(f"{model.name} declares no inputs")
    return model
