"""Caches that clients share: what one sends must not show in the time of another's answer."""

import hashlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, text

CVES = ("CVE-2025-46570",)

MODELS = """
from collections.abc import AsyncIterator, Iterator

from inferstream import MLModel, request_context
from inferstream.codecs import StringCodec
from inferstream.model import Finished, StepModel
from inferstream.types import InferenceRequest, InferenceResponse


class Salt:
    separates_principals = True

    def salt(self):
        output = StringCodec.encode_output("text", [f"salt {request_context().cache_salt!r}"])
        return InferenceResponse(model_name=self.name, outputs=[output])


class Plain(Salt, MLModel):
    async def predict(self, payload):
        return self.salt()

    async def predict_stream(self, payloads) -> AsyncIterator[InferenceResponse]:
        async for _ in payloads:
            yield self.salt()


class Blocking(Salt, MLModel):
    def predict(self, payload):
        return self.salt()

    def predict_stream(self, payloads) -> Iterator[InferenceResponse]:
        for _ in payloads:
            yield self.salt()


class Steps(Salt, StepModel):
    def admit(self, request):
        return self.salt()

    def step(self, states):
        return [Finished(state) for state in states]

    def release(self, state):
        pass


class Unmarked(Plain):
    separates_principals = False
"""


def new_key(id: str, principal: str) -> tuple[str, dict]:
    key = f"ifs_{id}_{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    return key, {
        "id": id,
        "principal": principal,
        "sha256": digest,
        "scopes": ["infer", "stream"],
        "models": ["*"],
    }


KEYS = {"a1": "alice", "a2": "alice", "b1": "bob"}


class Salted(Running):
    """Models that answer with the salt of their caller."""

    def __init__(self, root: Path, workers: int, keys: bool = True) -> None:
        folder = root / "models"
        for name in ("plain", "blocking", "steps", "unmarked", "cached"):
            (folder / name).mkdir(parents=True)
            (folder / name / "salted.py").write_text(MODELS)
            implementation = f"salted.{'Plain' if name == 'cached' else name.capitalize()}"
            settings = {"name": name, "implementation": implementation, "cache_enabled": name == "cached"}
            (folder / name / "model-settings.json").write_text(json.dumps(settings))
        made = {id: new_key(id, principal) for id, principal in KEYS.items()}
        self.keys = {id: key for id, (key, _) in made.items()} if keys else dict.fromkeys(KEYS, "")
        document = {"version": 1, "keys": [entry for _, entry in made.values()]}
        (root / "keys.json").write_text(json.dumps(document))
        settings = {"parallel_workers": workers, "cache_enabled": True}
        if keys:
            settings["keys_file"] = str(root / "keys.json")
        (folder / "settings.json").write_text(json.dumps(settings))
        super().__init__(folder)

    def rest(self, model: str, id: str, action: str = "infer") -> str:
        headers = {"Authorization": f"Bearer {self.keys[id]}"} if self.keys[id] else {}
        return self.infer(model, text(), action, headers=headers).text

    def sse(self, model: str, id: str) -> str:
        return self.rest(model, id, "infer_stream")

    def grpc_unary(self, model: str, id: str) -> str:
        with grpc.insecure_channel(self.grpc) as channel:
            stub = GRPCInferenceServiceStub(channel)
            request = ModelInferRequest(model_name=model)
            tensor = request.inputs.add(name="prompt", datatype="BYTES", shape=[1])
            tensor.contents.bytes_contents.append(b"hi")
            return str(stub.ModelInfer(request, metadata=[("x-api-key", self.keys[id])]))

    def websocket(self, model: str, id: str) -> str:
        url = f"{self.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
        with connect(url, additional_headers={"X-API-Key": self.keys[id]}, proxy=None) as socket:
            socket.send(json.dumps({"id": "1", **text()}))
            return str(socket.recv(20))


@pytest.fixture(scope="module")
def salted(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salted]:
    running = Salted(tmp_path_factory.mktemp("salted"), workers)
    yield running
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("way", ["rest", "sse", "grpc_unary", "websocket"])
@pytest.mark.parametrize("model", ["plain", "blocking", "steps"])
def test_each_principal_has_own_salt(salted: Salted, model: str, way: str) -> None:
    ask = getattr(salted, way)
    for id, principal in KEYS.items():
        assert f"salt '{principal}'" in ask(model, id).replace("\\'", "'")


def test_cached_computation_uses_salt_of_first_caller(salted: Salted) -> None:
    assert "salt 'alice'" in salted.rest("cached", "a1")


def test_model_without_prefix_marker_gets_no_salt(salted: Salted) -> None:
    assert "salt ''" in salted.rest("unmarked", "a1")


def test_clients_share_prefixes_without_keys(tmp_path: Path, workers: int) -> None:
    running = Salted(tmp_path, workers, keys=False)
    assert "salt ''" in running.rest("plain", "a1")
    assert running.stop() == 0, running.text()
