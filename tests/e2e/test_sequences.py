"""Sequences by Triton's clients: one worker for each, and clear ends."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tritonclient")

import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.serving import Running, eventually, write_model

CODE = '''
import os

import numpy as np

from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceResponse


class Adder(MLModel):
    """Adds up the numbers of a sequence in its own memory."""

    async def load(self):
        self.sums = {}
        return True

    async def predict(self, payload):
        said = payload.parameters
        key = said.sequence_id
        before = 0 if getattr(said, "sequence_start", False) else self.sums[key]
        self.sums[key] = before + int(NumpyCodec.decode_input(payload.inputs[0])[0])
        found = np.array([self.sums[key], os.getpid()])
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", found)])
'''


@pytest.fixture(scope="module", params=[0, 3], ids=["process", "workers"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("sequences")
    write_model(
        folder, "adder", "adders.Adder", CODE, name="adder", sequence_idle=60, parallel_workers=request.param
    )
    running = Running(folder, within=60)
    running.count = request.param  # type: ignore[attr-defined]
    yield running
    assert running.stop() == 0, running.text()


def number(library: Any, value: int) -> Any:
    tensor = library.InferInput("x", [1], "INT64")
    tensor.set_data_from_numpy(np.array([value], np.int64))
    return [tensor]


@pytest.mark.parametrize("library", [triton_http, triton_grpc], ids=["http", "grpc"])
@pytest.mark.parametrize("named", [False, True], ids=["numbers", "texts"])
def test_sequence_stays_in_one_worker(server: Running, library: Any, named: bool) -> None:
    client = library.InferenceServerClient(
        server.grpc if library is triton_grpc else f"127.0.0.1:{server.http_port}"
    )
    ids: list[Any] = [f"{library.__name__}-{each}" if named else each + 1 for each in range(6)]
    pids: dict[Any, set[int]] = {each: set() for each in ids}
    for step in range(3):
        for place, each in enumerate(ids):
            answer = (
                client.infer(
                    "adder",
                    number(library, place + 1),
                    sequence_id=each,
                    sequence_start=step == 0,
                    sequence_end=step == 2,
                )
                .as_numpy("y")
                .reshape(-1)
            )
            assert answer[0] == (place + 1) * (step + 1)
            pids[each].add(int(answer[1]))
    assert all(len(each) == 1 for each in pids.values())
    assert len(set.union(*pids.values())) == max(1, server.count)  # type: ignore[attr-defined]
    with pytest.raises(InferenceServerException, match="no open sequence"):
        client.infer("adder", number(library, 1), sequence_id=ids[0])
    client.close()


def test_streams_support_sequences(server: Running) -> None:
    client = triton_grpc.InferenceServerClient(server.grpc)
    answers: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for step in range(20):
        client.async_stream_infer(
            "adder", number(triton_grpc, 1), sequence_id=99, sequence_start=step == 0, sequence_end=step == 19
        )
    found = [answers.get(timeout=30) for _ in range(20)]
    assert [error for _, error in found if error] == []
    assert [int(result.as_numpy("y").reshape(-1)[0]) for result, _ in found] == [*range(1, 21)]
    client.stop_stream()
    client.close()


def test_sequence_restarts_after_worker_is_killed(server: Running) -> None:
    if not server.count:  # type: ignore[attr-defined]
        pytest.skip("the model runs in the server's process")
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    answer = client.infer("adder", number(triton_http, 1), sequence_id=5, sequence_start=True)
    killed = int(answer.as_numpy("y").reshape(-1)[1])
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: killed not in server.workers())
    with pytest.raises(InferenceServerException, match="begin it anew"):
        client.infer("adder", number(triton_http, 1), sequence_id=5)
    eventually(lambda: len(server.workers()) == server.count)  # type: ignore[attr-defined]
    eventually(lambda: client.is_model_ready("adder"))
    again = client.infer("adder", number(triton_http, 4), sequence_id=5, sequence_start=True)
    assert again.as_numpy("y").reshape(-1)[0] == 4
    client.close()


def test_several_front_ends_refuse_sequences(tmp_path: Path) -> None:
    write_model(tmp_path, "adder", "adders.Adder", CODE, name="adder", sequence_idle=60)
    server = Running(tmp_path, within=60, INFERSTREAM_FRONTENDS="2")
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    reasons = [each["reason"] for each in client.get_model_repository_index()]
    assert "sequence_idle needs frontends 1" in reasons[0]
    assert "sequence" not in client.get_server_metadata()["extensions"]
    client.close()
    server.stop()
