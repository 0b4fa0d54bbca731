"""Inference over REST in JSON."""

from ..case import case, each
from ..outcome import expect, require, short
from ..server import Server, flat, only_output, outputs
from ..tensors import DATATYPES, IN_JSON


@each(IN_JSON)
def values_come_back(server: Server, datatype: str) -> None:
    model = server.model("identity")
    output = only_output(server.infer(model, [model.input(datatype)]))
    expect(flat(output.get("data")), list(DATATYPES[datatype].values), "`data`")
    expect(output.get("datatype"), datatype, "`datatype`")


@case
def nested_data_equal_flat(server: Server) -> None:
    model = server.model("identity")
    nested = {**model.input("FP32", shape=[2, 2]), "data": [[1.5, 2.5], [3.5, 4.5]]}
    output = only_output(server.infer(model, [nested]))
    expect(flat(output.get("data")), [1.5, 2.5, 3.5, 4.5], "`data` of [[1.5, 2.5], [3.5, 4.5]]")


@case
def shapes_are_kept(server: Server) -> None:
    model = server.model("identity")
    values = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    output = only_output(server.infer(model, [model.input("FP32", values, [2, 3])]))
    expect(output.get("shape"), [2, 3], "`shape`")
    expect(flat(output.get("data")), values, "`data`, which is row-major")


@case
def empty_tensors_are_tensors(server: Server) -> None:
    model = server.model("identity")
    output = only_output(server.infer(model, [model.input("FP32", [], [0])]))
    expect(output.get("shape"), [0], "`shape`")
    expect(output.get("data"), [], "`data`")


@case
def data_fill_the_shape(server: Server) -> None:
    model = server.model("identity")
    output = only_output(server.infer(model, [model.input("FP32", [1.5] * 4, [4, 1])]))
    size = 1
    for length in output.get("shape") or []:
        size *= length
    expect(len(flat(output.get("data"))), size, f"values of shape {output.get('shape')}")


@case
def response_names_the_model(server: Server) -> None:
    expect(_response(server).get("model_name"), server.model("identity").name, "`model_name`")


@case
def model_version_is_a_string(server: Server) -> None:
    version = _response(server).get("model_version", "")
    require(
        isinstance(version, str), f"expected a string or nothing as `model_version`, got {short(version)}"
    )


@case
def outputs_have_a_name(server: Server) -> None:
    name = only_output(_response(server)).get("name")
    require(
        isinstance(name, str) and bool(name), f"expected the string `name` of the output, got {short(name)}"
    )


@case
def response_is_json(server: Server) -> None:
    model = server.model("identity")
    answer = server.http.post(f"{model.path}/infer", {"inputs": [model.input("FP32")]})
    kind = answer.headers.get("content-type", "").partition(";")[0]
    expect(kind, "application/json", "Content-Type")


@case
def id_comes_back(server: Server) -> None:
    model = server.model("identity")
    expect(server.infer(model, [model.input("FP32")], id="case-42").get("id"), "case-42", "`id`")


@case
def id_is_optional(server: Server) -> None:
    value = _response(server).get("id", "")
    require(
        isinstance(value, str),
        f"expected a string or nothing as `id` of a request without, got {short(value)}",
    )


@case
def parameters_are_taken(server: Server) -> None:
    model = server.model("identity")
    parameters = {"a_text": "x", "a_number": 3, "a_bool": True}
    tensor = {**model.input("FP32"), "parameters": {"tensor_text": "y"}}
    output = only_output(server.infer(model, [tensor], parameters=parameters))
    expect(flat(output.get("data")), list(DATATYPES["FP32"].values), "`data`")


@case
def parameters_of_a_response_are_an_object(server: Server) -> None:
    response = _response(server)
    for part in (response, only_output(response)):
        parameters = part.get("parameters", {})
        require(
            isinstance(parameters, dict), f"expected an object or no `parameters`, got {short(parameters)}"
        )


@case
def all_outputs_by_default(server: Server) -> None:
    names = [output.get("name") for output in outputs(server.infer(server.model("typed"), _two(server)))]
    expect(sorted(names), ["OUTPUT0", "OUTPUT1"], "outputs of a request that names none")


@each(["OUTPUT0", "OUTPUT1"])
def requested_output_alone(server: Server, name: str) -> None:
    response = server.infer(server.model("typed"), _two(server), outputs=[{"name": name}])
    expect(only_output(response).get("name"), name, "name of the requested output")


@case
def inputs_go_by_name(server: Server) -> None:
    model = server.model("typed")
    response = server.infer(model, [*reversed(_two(server))])
    data = {output.get("name"): output.get("data") for output in outputs(response)}
    expect(
        data.get("OUTPUT0"), list(DATATYPES["FP32"].values), "data of OUTPUT0, of inputs in the other order"
    )


@case
def version_in_the_path(server: Server) -> None:
    model = server.model("identity")
    path = f"{model.path}/versions/{model.version}/infer"
    response = server.http.post(path, {"inputs": [model.input("FP32")]}).ok()
    expect(response.get("model_version"), model.version, "`model_version`")


def _response(server: Server) -> dict[str, object]:
    model = server.model("identity")
    return server.infer(model, [model.input("FP32")])


def _two(server: Server) -> list[dict[str, object]]:
    model = server.model("typed")
    return [model.input("FP32"), model.input("BYTES")]
