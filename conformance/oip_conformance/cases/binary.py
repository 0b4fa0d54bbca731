"""The binary tensor data extension of Triton, over REST."""

from typing import Any

from ..case import case, each
from ..http import HEADER_LENGTH, Answer
from ..outcome import Skip, expect, require, short
from ..server import Server, flat, only_output, outputs, require_error
from ..tensors import DATATYPES

LENGTH = HEADER_LENGTH.lower()


@case
def extension_is_announced(server: Server) -> None:
    _need_binary(server)
    announced = any(text in server.extensions() for text in ("binary_tensor_data", "binary_data"))
    require(announced, f"binary tensors are served, and not announced: {short(server.extensions())}")


@each(DATATYPES)
def values_come_back(server: Server, datatype: str) -> None:
    answer = _ask(server, *_input(server, datatype), binary_data_output=True)
    if datatype == "BF16" and 400 <= answer.status < 500:
        raise Skip(f"only Triton defines BF16: {short(answer.body)}")
    output, data = _one_binary(answer)
    expect(output.get("datatype"), datatype, "`datatype`")
    expect(DATATYPES[datatype].unpack(data), list(DATATYPES[datatype].values), "values")


@case
def input_alone_may_be_binary(server: Server) -> None:
    output = only_output(_ask(server, *_input(server, "FP32")).ok())
    expect(flat(output.get("data")), list(DATATYPES["FP32"].values), "`data` of a binary input")


@case
def inputs_are_in_order(server: Server) -> None:
    model = _two(server)
    tensors, blobs = zip(
        *(_tensor(model, name, index) for index, name in enumerate(("FP32", "BYTES"))), strict=True
    )
    answer = server.http.binary(f"{model.path}/infer", {"inputs": tensors}, b"".join(blobs))
    data = [flat(output.get("data")) for output in outputs(answer.ok())]
    expect(data, [list(DATATYPES[name].values) for name in ("FP32", "BYTES")], "`data` of two binary inputs")


@case
def json_and_binary_inputs_mix(server: Server) -> None:
    model = _two(server)
    tensor, blob = _tensor(model, "BYTES", 1)
    answer = server.http.binary(f"{model.path}/infer", {"inputs": [model.input("FP32"), tensor]}, blob)
    data = [flat(output.get("data")) for output in outputs(answer.ok())]
    expect(
        data,
        [list(DATATYPES[name].values) for name in ("FP32", "BYTES")],
        "`data` of a JSON and a binary input",
    )


@case
def output_has_its_size_and_no_data(server: Server) -> None:
    output, data = _one_binary(_ask(server, *_input(server, "FP32"), binary_data_output=True))
    require("data" not in output, f"a binary output has `data` too: {short(output)}")
    expect(len(data), 12, "bytes of three FP32")


@case
def response_says_the_length_of_its_json(server: Server) -> None:
    answer = _ask(server, *_input(server, "FP32"), binary_data_output=True)
    length = answer.headers.get(LENGTH, "")
    require(length.isdigit(), f"expected a number as {HEADER_LENGTH}, got {length!r}")
    expect(len(answer.body) - int(length), 12, f"bytes after {HEADER_LENGTH}")


@case
def response_is_an_octet_stream(server: Server) -> None:
    answer = _ask(server, *_input(server, "FP32"), binary_data_output=True)
    expect(answer.headers.get("content-type"), "application/octet-stream", "Content-Type")


@case
def content_length_is_that_of_the_body(server: Server) -> None:
    answer = _ask(server, *_input(server, "FP32"), binary_data_output=True)
    expect(answer.headers.get("content-length"), str(len(answer.body)), "Content-Length")


@case
def requested_output_is_binary(server: Server) -> None:
    document, blobs = _build_request(
        server, [{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT1"}]
    )
    path = f"{server.model('typed').path}/infer"
    response, data = _split(server.http.binary(path, document, blobs))
    sizes = {output.get("name"): _size(output) for output in outputs(response)}
    expect(
        sizes,
        {"OUTPUT0": 12, "OUTPUT1": None},
        "`binary_data_size`, where OUTPUT0 alone is asked for as binary",
    )
    expect(DATATYPES["FP32"].unpack(data), list(DATATYPES["FP32"].values), "values of OUTPUT0")


@case
def false_on_an_output_overrides(server: Server) -> None:
    document, blobs = _build_request(server, [{"name": "OUTPUT0", "parameters": {"binary_data": False}}])
    document["parameters"] = {"binary_data_output": True}
    answer = server.http.binary(f"{server.model('typed').path}/infer", document, blobs)
    response, _ = _split(answer)
    expect(flat(only_output(response).get("data")), list(DATATYPES["FP32"].values), "`data`")


@case
def json_outputs_by_default(server: Server) -> None:
    output = only_output(_ask(server, *_input(server, "FP32")).ok())
    expect(_size(output), None, "`binary_data_size` of an output that nobody asked for as binary")


@case
def header_of_any_case(server: Server) -> None:
    tensor, blob = _input(server, "FP32")
    path = f"{server.model('identity').path}/infer"
    answer = server.http.binary(path, {"inputs": [tensor]}, blob, name=LENGTH.upper())
    expect(flat(only_output(answer.ok()).get("data")), list(DATATYPES["FP32"].values), "`data`")


@case
def all_json_with_the_header(server: Server) -> None:
    _need_binary(server)
    model = server.model("identity")
    answer = server.http.binary(f"{model.path}/infer", {"inputs": [model.input("FP32")]})
    expect(flat(only_output(answer.ok()).get("data")), list(DATATYPES["FP32"].values), "`data`")


@each(["-1", "99999", "x", "3"])
def wrong_header_is_an_error(server: Server, length: str) -> None:
    tensor, blob = _input(server, "FP32")
    path = f"{server.model('identity').path}/infer"
    require_error(server.http.binary(path, {"inputs": [tensor]}, blob, length))


@each(["fewer-bytes", "more-bytes", "size-of-another-shape", "data-too", "negative-size"])
def wrong_size_is_an_error(server: Server, which: str) -> None:
    tensor, blob = _input(server, "FP32")
    if which == "fewer-bytes":
        blob = blob[:-1]
    elif which == "more-bytes":
        blob += b"\0"
    elif which == "size-of-another-shape":
        tensor["shape"] = [4]
    elif which == "data-too":
        tensor["data"] = [0.5, -1.25, 3.0]
    else:
        tensor["parameters"] = {"binary_data_size": -12}
    require_error(_ask(server, tensor, blob))


def _input(server: Server, datatype: str) -> tuple[dict[str, Any], bytes]:
    _need_binary(server)
    return _tensor(server.model("identity"), datatype)


def _tensor(model: Any, datatype: str, index: int = 0) -> tuple[dict[str, Any], bytes]:
    tensor = model.input(datatype, index=index)
    del tensor["data"]
    blob = DATATYPES[datatype].pack(DATATYPES[datatype].values)
    return {**tensor, "parameters": {"binary_data_size": len(blob)}}, blob


def _two(server: Server) -> Any:
    """Return a model that takes two inputs of different sizes."""
    _need_binary(server)
    return server.model("typed")


def _ask(server: Server, tensor: dict[str, Any], blob: bytes, **parameters: bool) -> Answer:
    document = {"inputs": [tensor], **({"parameters": parameters} if parameters else {})}
    return server.http.binary(f"{server.model('identity').path}/infer", document, blob)


def _build_request(server: Server, requested: list[dict[str, Any]]) -> tuple[dict[str, Any], bytes]:
    model = _two(server)
    tensor, blob = _tensor(model, "FP32")
    return {"inputs": [tensor, model.input("BYTES")], "outputs": requested}, blob


def _split(answer: Answer) -> tuple[dict[str, Any], bytes]:
    """Split a response into its JSON and binary parts."""
    expect(answer.status, 200, f"status ({short(answer.body)})")
    length = answer.headers.get(LENGTH)
    if length is None:
        return answer.document(), b""
    require(length.isdigit(), f"expected a number as {HEADER_LENGTH}, got {length!r}")
    return Answer(200, answer.headers, answer.body[: int(length)]).document(), answer.body[int(length) :]


def _one_binary(answer: Answer) -> tuple[dict[str, Any], bytes]:
    response, data = _split(answer)
    output = only_output(response)
    expect(_size(output), len(data), "`binary_data_size`, against the bytes that follow the JSON")
    return output, data


def _size(output: dict[str, Any]) -> Any:
    return (output.get("parameters") or {}).get("binary_data_size")


def _need_binary(server: Server) -> None:
    """Skip the case if binary tensors are neither announced nor accepted."""
    if any(text in server.extensions() for text in ("binary_tensor_data", "binary_data")):
        return
    model = server.model("identity")
    tensor, blob = _tensor(model, "FP32")
    answer = server.http.binary(f"{model.path}/infer", {"inputs": [tensor]}, blob)
    if answer.status != 200:
        raise Skip("the server does not announce binary_tensor_data, and refuses a binary tensor")
