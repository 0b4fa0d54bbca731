"""What a request is given on its way in."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from uuid import UUID

import pytest

from inferstream.dataplane.call import (
    LOWEST,
    Call,
    Operation,
    apply_parameters,
    header_priority,
    identify,
    new_id,
)
from inferstream.errors import InvalidRequest
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.grpc import parse_request
from inferstream.protos.json_requests import build_request
from inferstream.types import InferenceRequest, Parameters

FORK = """
import os
from inferstream.dataplane.call import new_id

child = os.fork()
os.write(1, f"{new_id()}\\n".encode())  # one system call: with PYTHONUNBUFFERED, print makes two
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0
"""


def test_model_may_set_parameters_on_request_without_parameters() -> None:
    request = InferenceRequest(inputs=[])
    identify(request, {"name": "value"})
    assert request.parameters is not None
    request.parameters.seen = True
    assert dict(request.parameters.items()) == {"seen": True}


def from_json(given: bool) -> InferenceRequest:
    document = {"inputs": [], "parameters": {"by": 1}} if given else {"inputs": []}
    return build_request(document, json.dumps(document).encode(), None)[0]


def from_grpc(given: bool) -> InferenceRequest:
    message = ModelInferRequest(model_name="m")
    if given:
        message.parameters["by"].int64_param = 1
    return parse_request(message)


def from_code(given: bool) -> InferenceRequest:
    return InferenceRequest(inputs=[], **({"parameters": Parameters(by=1)} if given else {}))


@pytest.mark.parametrize("request_of", [from_json, from_grpc, from_code])
def test_dump_has_client_parameters_and_no_headers(
    request_of: Callable[[bool], InferenceRequest],
) -> None:
    without, given = request_of(False), request_of(True)
    for request in (without, given):
        identify(request, {"authorization": "secret"})
    assert without.model_dump().keys() <= {"id", "inputs"}
    assert given.model_dump()["parameters"] == {"by": 1}
    for request in (without, given):
        assert "secret" not in request.model_dump_json()


def test_ids_are_unique_uuids() -> None:
    found = [new_id() for _ in range(1000)]
    assert {UUID(id).version for id in found} == {4}
    assert len(set(found)) == 1000


def test_forked_processes_generate_different_ids() -> None:
    said = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True).stdout
    first, second = said.split()
    assert first[:24] != second[:24]


def heeded(parameters: dict, **given) -> Call:
    call = Call(Operation.INFER, "m", None, InferenceRequest(inputs=[]), {}, **given)
    apply_parameters(call, Parameters(**parameters))
    return call


@pytest.mark.parametrize(("said", "heard"), [(1, 1), (5, 5), (9, 9), (10, LOWEST), (2**64 - 1, LOWEST)])
def test_priority_is_one_to_nine(said: int, heard: int) -> None:
    assert heeded({"priority": said}).priority == heard
    assert header_priority(str(said).encode()) == header_priority(str(said)) == heard


def test_request_priority_overrides_header_unless_default() -> None:
    assert heeded({"priority": 2}, priority=7).priority == 2
    assert heeded({"priority": 0}, priority=7).priority == 7
    assert heeded({}, priority=7).priority == 7
    assert heeded({}).priority == heeded({"priority": 0}).priority == header_priority(b"0") == 0


@pytest.mark.parametrize("said", [-1, 1.0, "1", True])
def test_invalid_priority_is_refused(said: object) -> None:
    with pytest.raises(InvalidRequest, match='parameter "priority"'):
        heeded({"priority": said})


@pytest.mark.parametrize("said", [b"-1", b"", b"high", b"1.5", "²", b"1" * 400])
def test_invalid_priority_header_is_refused(said: bytes | str) -> None:
    with pytest.raises(InvalidRequest, match="X-Request-Priority"):
        header_priority(said)


async def test_earlier_deadline_applies() -> None:
    now = asyncio.get_running_loop().time()
    assert heeded({}).deadline is None
    assert heeded({"timeout": 0}).deadline is None
    assert heeded({"timeout": 0}, deadline=now + 1).deadline == now + 1
    assert heeded({"timeout": 10**9}, deadline=now + 1).deadline == now + 1
    shorter = heeded({"timeout": 10**6}, deadline=now + 1000).deadline
    assert shorter is not None
    assert now + 1 <= shorter < now + 1000


@pytest.mark.parametrize("said", [-1, 0.5, "1000", True, 10**15 + 1])
def test_invalid_timeout_is_refused(said: object) -> None:
    with pytest.raises(InvalidRequest, match='parameter "timeout"'):
        heeded({"timeout": said})
