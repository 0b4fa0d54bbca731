"""Requests, responses and what sends them."""

import json
import threading

import numpy as np
import pytest

from inferstream.errors import Abandoned
from inferstream.plugins.triton.calls import (
    FINAL,
    BackendRequest,
    BackendResponse,
    BackendSender,
    TritonError,
    TritonModelException,
    get_input_tensor_by_name,
    get_output_tensor_by_name,
)
from inferstream.plugins.triton.tensor import BackendTensor
from inferstream.types import InferenceRequest, Parameters, RequestInput, RequestOutput

X = BackendTensor("x", np.array([1]))


def test_request_has_client_fields() -> None:
    payload = InferenceRequest(
        id="7",
        inputs=[RequestInput(name="x", datatype="INT64", shape=[1], data=[3])],
        outputs=[RequestOutput(name="y")],
        parameters=Parameters(sequence_id="s", sequence_start=True, sequence_end=True, depth=2, timeout=50),
    )
    request = BackendRequest.of(payload, BackendSender(lambda *_: None), ["y", "z"], lambda: False)
    assert (request.request_id(), request.correlation_id(), request.flags()) == ("7", "s", 3)
    assert (request.requested_output_names(), request.timeout()) == (["y"], 50)
    assert json.loads(request.parameters()) == {"depth": 2}
    tensor = get_input_tensor_by_name(request, "x")
    assert tensor is not None
    assert tensor.as_numpy().tolist() == [3]
    assert get_input_tensor_by_name(request, "y") is None


def test_request_detects_disconnect() -> None:
    gone: list[bool] = []
    request = BackendRequest(cancelled=lambda: bool(gone))
    assert not request.is_cancelled()
    gone.append(True)
    assert request.is_cancelled()
    with pytest.raises(TritonModelException, match="only a request of a client"):
        request.get_response_sender()
    for call in (request.exec, request.async_exec):
        with pytest.raises(TritonModelException, match="calls no other model"):
            call()


def test_response_has_tensors_or_an_error() -> None:
    response = BackendResponse([X], parameters={"a": 1})
    assert get_output_tensor_by_name(response, "x") is X
    assert get_output_tensor_by_name(response, "y") is None
    assert (response.has_error(), json.loads(response.parameters())) == (False, {"a": 1})
    error = BackendResponse(error=TritonError("none of these", TritonError.NOT_FOUND)).error()
    assert error is not None
    assert (str(error), error.code(), error.to_error().status_code) == ("none of these", 2, 404)
    with pytest.raises(TritonModelException):
        TritonError("a", 99)


def test_responses_are_sent_until_final_one() -> None:
    sent: list[BackendResponse] = []
    sender = BackendSender(lambda response, _: sent.append(response))
    sender.send(BackendResponse([X]))
    assert not sender.ended.is_set()
    sender.send(BackendResponse([X]), FINAL)
    assert sender.ended.is_set()
    assert len(sent) == 2
    for flags, said in ((0, "sent already"), (4, "no flags")):
        with pytest.raises(TritonModelException, match=said):
            sender.send(BackendResponse([X]), flags)
    with pytest.raises(TritonModelException, match="takes the flag of the last one"):
        BackendSender(lambda response, _: sent.append(response)).send()


def test_nothing_is_sent_after_disconnect() -> None:
    def send(_: BackendResponse, final: bool) -> None:
        raise Abandoned

    sender = BackendSender(send)
    sender.send(BackendResponse([X]))
    assert sender.is_cancelled()
    assert sender.ended.is_set()
    sender.send(BackendResponse([X]))


def test_error_ends_request() -> None:
    def send(_: BackendResponse, final: bool) -> None:
        raise KeyError("x")

    sender = BackendSender(send)
    sender.send(BackendResponse([X]))
    assert isinstance(sender.ended.error, KeyError)
    assert sender.ended.is_set()


def test_released_sender_sends_nothing() -> None:
    sender = BackendSender(lambda *_: None)
    ended = sender.ended
    thread = threading.Thread(target=ended.wait)
    thread.start()
    del sender
    thread.join(10)
    assert ended.is_set()


def test_parameters_come_only_from_client() -> None:
    given = {"priority": 3, "timeout": 5, "sequence_id": 7, "sequence_start": True, "sequence_end": False}
    payload = InferenceRequest(inputs=[], parameters={**given, "binary_data_output": True, "mine": "x"})
    request = BackendRequest.of(payload, BackendSender(lambda *_: None), [], lambda: False)
    assert json.loads(request.parameters()) == {"mine": "x"}
    assert (request.timeout(), request.correlation_id(), request.flags()) == (5, 7, 1)


def test_request_cannot_be_rescheduled_and_has_no_trace() -> None:
    request = BackendRequest()
    request.set_release_flags(1)
    for call in (lambda: request.set_release_flags(2), request.trace):
        with pytest.raises(TritonModelException, match=" here"):
            call()
