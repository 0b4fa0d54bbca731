"""Inference over gRPC."""

from typing import Any

from ..case import case, each
from ..messages import message
from ..outcome import Difference, Skip, expect, require
from ..rpc import Refused
from ..server import Server, flat, only_output, raw_request, rpc_values, typed_request
from ..tensors import DATATYPES, TYPED


@each(DATATYPES)
def raw_values_come_back(server: Server, datatype: str) -> None:
    try:
        response = server.rpc.attempt("ModelInfer", raw_request(server.model("identity"), datatype))
    except Refused as error:
        if datatype == "BF16":
            raise Skip(f"only Triton defines BF16: {error}") from error
        raise Difference(f"expected OK, got {error}") from error
    expect(rpc_values(response), list(DATATYPES[datatype].values), "values")
    expect(response.outputs[0].datatype, datatype, "`datatype`")


@each(TYPED)
def typed_values_come_back(server: Server, datatype: str) -> None:
    response = server.rpc.call("ModelInfer", typed_request(server.model("identity"), datatype))
    expect(rpc_values(response), list(DATATYPES[datatype].values), "values")


@each(TYPED)
def typed_output_is_in_its_field(server: Server, datatype: str) -> None:
    """Raw contents are also accepted, because any response may use them."""
    response = server.rpc.call("ModelInfer", typed_request(server.model("identity"), datatype))
    require(len(response.outputs) == 1, f"expected one output, got {len(response.outputs)}")
    fields = [field.name for field, _ in response.outputs[0].contents.ListFields()]
    expected = [] if response.raw_output_contents else [DATATYPES[datatype].field]
    expect(fields, expected, "fields of `contents`")


@case
def raw_output_for_each_output(server: Server) -> None:
    response = server.rpc.call("ModelInfer", _both(server))
    if response.raw_output_contents:
        expect(len(response.raw_output_contents), 2, "entries of raw_output_contents for two outputs")
    expect(rpc_values(response, 0), list(DATATYPES["FP32"].values), "values of OUTPUT0")
    expect(rpc_values(response, 1), list(DATATYPES["BYTES"].values), "values of OUTPUT1")


@case
def contents_are_never_mixed(server: Server) -> None:
    for request in (_both(server), typed_request(server.model("typed"), "FP32", "BYTES")):
        response = server.rpc.call("ModelInfer", request)
        typed = [output.name for output in response.outputs if output.contents.ListFields()]
        require(not (typed and response.raw_output_contents), f"raw contents, and typed ones of {typed}")


@case
def half_floats_are_raw(server: Server) -> None:
    response = server.rpc.call("ModelInfer", raw_request(server.model("identity"), "FP16"))
    expect(len(response.raw_output_contents), 1, "entries of raw_output_contents for an FP16 output")


@case
def shapes_are_kept(server: Server) -> None:
    request = raw_request(server.model("identity"), "FP32")
    request.inputs[0].shape[:] = [3, 1]
    response = server.rpc.call("ModelInfer", request)
    expect([list(output.shape) for output in response.outputs], [[3, 1]], "shapes")


@case
def id_comes_back(server: Server) -> None:
    response = server.rpc.call("ModelInfer", raw_request(server.model("identity"), "FP32", id="case-42"))
    expect(response.id, "case-42", "`id`")


@case
def response_names_the_model(server: Server) -> None:
    model = server.model("identity")
    expect(server.rpc.call("ModelInfer", raw_request(model, "FP32")).model_name, model.name, "`model_name`")


@case
def version_is_taken(server: Server) -> None:
    model = server.model("identity")
    response = server.rpc.call("ModelInfer", raw_request(model, "FP32", model_version=model.version))
    expect(response.model_version, model.version, "`model_version`")


@case
def parameters_are_taken(server: Server) -> None:
    request = raw_request(server.model("identity"), "FP32")
    request.parameters["a_text"].string_param = "x"
    request.parameters["a_number"].int64_param = 3
    request.parameters["a_bool"].bool_param = True
    request.inputs[0].parameters["tensor_text"].string_param = "y"
    expect(rpc_values(server.rpc.call("ModelInfer", request)), list(DATATYPES["FP32"].values), "values")


@case
def all_outputs_by_default(server: Server) -> None:
    response = server.rpc.call("ModelInfer", _both(server))
    expect(sorted(output.name for output in response.outputs), ["OUTPUT0", "OUTPUT1"], "outputs")


@each(["OUTPUT0", "OUTPUT1"])
def requested_output_alone(server: Server, name: str) -> None:
    request = _both(server)
    request.outputs.append(message("RequestedOutput")(name=name))
    response = server.rpc.call("ModelInfer", request)
    expect([output.name for output in response.outputs], [name], "outputs")


@case
def faces_answer_alike(server: Server) -> None:
    model = server.model("identity")
    over_rest = only_output(server.infer(model, [model.input("FP64")]))
    over_grpc = server.rpc.call("ModelInfer", raw_request(model, "FP64"))
    expect(rpc_values(over_grpc), flat(over_rest.get("data")), "values over gRPC, against REST's")
    expect(over_grpc.outputs[0].name, over_rest.get("name"), "name of the output over gRPC, against REST's")


def _both(server: Server) -> Any:
    return raw_request(server.model("typed"), "FP32", "BYTES")
