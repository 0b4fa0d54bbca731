"""ModelStreamInfer, with either Triton or MLServer responses, which have incompatible types."""

from typing import Any

from google.protobuf.message import DecodeError

from ..case import case
from ..messages import message
from ..outcome import Difference, Skip, expect, require, short
from ..rpc import Refused, decode
from ..server import Server, rpc_values
from .generate import WORDS


@case
def triton_streams_a_response_at_a_time(server: Server) -> None:
    texts = [text for part in _triton(server, _raw(server, WORDS)) for text in _texts(part.infer_response)]
    expect("".join(texts).split(), WORDS.split(), "text of the responses")
    require(len(texts) > 1, "five words came in one response")


@case
def triton_responses_are_raw(server: Server) -> None:
    for part in _triton(server, _raw(server, WORDS)):
        entries = len(part.infer_response.raw_output_contents)
        expect(entries, len(part.infer_response.outputs), "entries of raw_output_contents")


@case
def triton_responses_carry_the_id(server: Server) -> None:
    for part in _triton(server, _raw(server, WORDS)):
        expect(part.infer_response.id, "case-42", "`id`")


@case
def triton_responses_name_the_model(server: Server) -> None:
    for part in _triton(server, _raw(server, WORDS)):
        expect(part.infer_response.model_name, server.model("stream").name, "`model_name`")


@case
def triton_marks_the_final_response(server: Server) -> None:
    marks = [_final(part) for part in _triton(server, _raw(server, WORDS, final=True))]
    expect(marks[:-1], [False] * (len(marks) - 1), "triton_final_response before the last response")
    expect(marks[-1:], [True], "triton_final_response of the last response")


@case
def triton_answers_every_request(server: Server) -> None:
    parts = _triton(server, _raw(server, "one two", "a"), _raw(server, "three four", "b"))
    by_id: dict[str, str] = {}
    for part in parts:
        by_id[part.infer_response.id] = by_id.get(part.infer_response.id, "") + "".join(
            _texts(part.infer_response)
        )
    expect(
        {name: text.split() for name, text in by_id.items()},
        {"a": ["one", "two"], "b": ["three", "four"]},
        "texts",
    )


@case
def triton_stream_goes_on_after_an_error(server: Server) -> None:
    parts = _triton(server, _raw(server, "!fail", "a"), _raw(server, "one two", "b"))
    errors = [part.infer_response.id for part in parts if part.error_message]
    expect(errors, ["a"], "ids of the responses with an error_message")
    texts = [text for part in parts if not part.error_message for text in _texts(part.infer_response)]
    expect("".join(texts).split(), ["one", "two"], "text after the error")


@case
def mlserver_streams_a_response_at_a_time(server: Server) -> None:
    texts = [text for part in _mlserver(server, WORDS) for text in _texts(part)]
    expect("".join(texts).split(), WORDS.split(), "text of the responses")
    require(len(texts) > 1, "five words came in one response")


@case
def mlserver_responses_carry_the_id(server: Server) -> None:
    for part in _mlserver(server, WORDS):
        expect(part.id, "case-42", "`id`")


@case
def mlserver_responses_name_the_model(server: Server) -> None:
    for part in _mlserver(server, WORDS):
        expect(part.model_name, server.model("stream").name, "`model_name`")


@case
def mlserver_failure_is_the_status(server: Server) -> None:
    _mlserver(server, WORDS)
    responses, refusal = server.rpc.stream([_build_request(server, "one !fail")])
    expect(len(responses), 1, "responses before the failure")
    require(refusal is not None, "the stream of a model that failed ended OK")


def _triton(server: Server, *requests: Any) -> list[Any]:
    """Return the responses, which must have the Triton type. The final status must be OK."""
    if _is_mlservers(server.rpc.stream([_raw(server, "word")])[0]):
        raise Skip("ModelStreamInfer returns the MLServer type")
    responses, refusal = server.rpc.stream(requests)
    _ended_well(refusal)
    require(bool(responses), "no response")
    return [decode("ModelStreamInferResponse", data) for data in responses]


def _mlserver(server: Server, text: str) -> list[Any]:
    responses, refusal = server.rpc.stream([_build_request(server, text)])
    if responses and not _is_mlservers(responses):
        raise Skip("ModelStreamInfer answers with Triton's type")
    _ended_well(refusal)
    require(bool(responses), "no response")
    return [decode("ModelInferResponse", data) for data in responses]


def _ended_well(refusal: Refused | None) -> None:
    if refusal is not None:
        raise Difference(f"expected the stream to end OK, got {refusal}")


def _is_mlservers(responses: list[bytes]) -> bool:
    """Whether the first response is a plain inference response, without the Triton envelope."""
    if not responses:
        return False
    try:
        return bool(message("ModelInferResponse").FromString(responses[0]).outputs)
    except DecodeError:  # the bytes of a different message
        return False


def _final(part: Any) -> bool | None:
    parameters = part.infer_response.parameters
    return parameters["triton_final_response"].bool_param if "triton_final_response" in parameters else None


def _texts(response: Any) -> list[str]:
    if not response.outputs:
        return []
    values = rpc_values(response)
    require(all(isinstance(value, str) for value in values), f"expected texts, got {short(values)}")
    return values


def _raw(server: Server, text: str, id: str = "case-42", final: bool = False) -> Any:
    """Build a request like a Triton client: raw contents, and a parameter that only Triton clients send."""
    octets = text.encode()
    request = message("ModelInferRequest")(model_name=server.model("stream").name, id=id)
    request.inputs.add(name="text_input", datatype="BYTES", shape=[1])
    request.raw_input_contents.append(len(octets).to_bytes(4, "little") + octets)
    request.parameters["triton_enable_empty_final_response"].bool_param = final
    return request


def _build_request(server: Server, text: str) -> Any:
    """Build a request like an MLServer client: typed contents with a content type."""
    request = message("ModelInferRequest")(model_name=server.model("stream").name, id="case-42")
    tensor = request.inputs.add(name="text_input", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    tensor.parameters["content_type"].string_param = "str"
    return request
