"""Errors of inference over REST."""

from collections.abc import Callable
from typing import Any

from ..case import case, each
from ..http import Answer
from ..outcome import Skip, expect, require
from ..server import UNKNOWN, Server, flat, model_path, only_output, require_error

Change = Callable[[dict[str, Any]], None]


def _without(key: str) -> Change:
    return lambda tensor: tensor.pop(key) and None


def _with(**fields: Any) -> Change:
    return lambda tensor: tensor.update(fields)


BAD_TENSORS: dict[str, Change] = {
    "no-name": _without("name"),
    "no-shape": _without("shape"),
    "no-datatype": _without("datatype"),
    "no-data": _without("data"),
    "unknown-datatype": _with(datatype="FP7"),
    "too-few-values": _with(shape=[5]),
    "too-many-values": _with(shape=[1]),
    "negative-shape": _with(shape=[-3]),
    "shape-beyond-64-bits": _with(shape=[2**40, 2**40]),
    "fractional-shape": _with(shape=[1.5]),
    "text-among-numbers": _with(data=[1.5, "x", 2.5]),
    "parameters-no-object": _with(parameters=[1]),
}


@each(BAD_TENSORS)
def bad_input_is_an_error(server: Server, which: str) -> None:
    require_error(_bad(server, which))


@each(BAD_TENSORS)
def bad_input_is_the_clients_fault(server: Server, which: str) -> None:
    answer = _bad(server, which)
    require(
        400 <= answer.status < 500, f"expected a status of the client, typically 400, got {answer.status}"
    )


@case
def malformed_json_is_an_error(server: Server) -> None:
    require_error(_send(server, b'{"inputs": ['))


@each(["[]", "{}", '{"inputs": null}', '{"inputs": {}}', '{"inputs": [1]}'])
def no_inputs_is_an_error(server: Server, text: str) -> None:
    require_error(_send(server, text.encode()))


@case
def errors_are_json(server: Server) -> None:
    answer = _send(server, b"no json")
    kind = answer.headers.get("content-type", "").partition(";")[0]
    expect(kind, "application/json", "Content-Type of an error")


@case
def unknown_model_is_an_error(server: Server) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
    require_error(server.http.post(f"{model_path(UNKNOWN)}/infer", {"inputs": [tensor]}))


@case
def unknown_version_is_an_error(server: Server) -> None:
    model = server.model("identity")
    require_error(server.http.post(f"{model.path}/versions/999999/infer", {"inputs": [model.input("FP32")]}))


@case
def inference_is_a_post(server: Server) -> None:
    answer = server.http.get(f"{server.any.path}/infer")
    require(answer.status >= 400, f"GET of an inference: expected an error status, got {answer.status}")


@case
def unknown_output_is_an_error(server: Server) -> None:
    model = _declaring(server)
    inputs = [model.input("FP32"), model.input("BYTES")]
    require_error(
        server.http.post(f"{model.path}/infer", {"inputs": inputs, "outputs": [{"name": "NO_SUCH"}]})
    )


@case
def missing_input_is_an_error(server: Server) -> None:
    model = _declaring(server)
    require_error(server.http.post(f"{model.path}/infer", {"inputs": [model.input("FP32")]}))


@case
def other_datatype_than_declared_is_an_error(server: Server) -> None:
    model = _declaring(server)
    wrong = {"name": "INPUT0", "datatype": "BYTES", "shape": [1], "data": ["x"]}
    require_error(server.http.post(f"{model.path}/infer", {"inputs": [wrong, model.input("BYTES")]}))


@case
def server_goes_on_after_errors(server: Server) -> None:
    model = server.model("identity")
    for text in (b"no json", b"{}", b'{"inputs": [' + b"[" * 2000):
        _send(server, text)
    output = only_output(server.infer(model, [model.input("FP32", [7.5])]))
    expect(flat(output.get("data")), [7.5], "`data` after three errors")


def _bad(server: Server, which: str) -> Answer:
    model = server.model("identity")
    tensor = model.input("FP32")
    BAD_TENSORS[which](tensor)
    return server.http.post(f"{model.path}/infer", {"inputs": [tensor]})


def _send(server: Server, body: bytes) -> Answer:
    path = f"{server.model('identity').path}/infer"
    return server.http.call("POST", path, body, {"Content-Type": "application/json"})


def _declaring(server: Server) -> Any:
    model = server.model("typed")
    if not model.inputs:
        raise Skip(f"{model.name} declares no inputs")
    return model
