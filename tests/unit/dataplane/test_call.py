"""What a request is given on its way in."""

import subprocess
import sys
from uuid import UUID

from inferstream.dataplane.call import identify, new_id
from inferstream.types import InferenceRequest

FORK = """
import os
from inferstream.dataplane.call import new_id

child = os.fork()
os.write(1, f"{new_id()}\\n".encode())  # one system call: with PYTHONUNBUFFERED, print makes two
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0
"""


def test_a_model_may_set_parameters_on_a_request_that_came_without() -> None:
    request = InferenceRequest(inputs=[])
    identify(request, {"name": "value"})
    assert request.parameters is not None
    request.parameters.seen = True
    assert dict(request.parameters.items()) == {"seen": True}


def test_ids_are_uuids_and_each_is_another() -> None:
    found = [new_id() for _ in range(1000)]
    assert {UUID(id).version for id in found} == {4}
    assert len(set(found)) == 1000


def test_processes_that_were_one_go_on_with_different_ids() -> None:
    said = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True).stdout
    first, second = said.split()
    assert first[:24] != second[:24]
