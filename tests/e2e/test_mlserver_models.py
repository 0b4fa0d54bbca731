"""Folders written for MLServer, with its imports, names and settings, run as they are."""

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator

import httpx
import pytest

from tests.serving import Running, text, write_model

STREAMING = """
import asyncio
from collections.abc import AsyncIterator
from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse

class TextModel(MLModel):
    async def load(self):
        self.ready = True
        return self.ready

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[InferenceResponse]:
        payload = [_ async for _ in payloads][0]
        for word in self.decode(payload.inputs[0], default_codec=StringCodec)[0].split():
            await asyncio.sleep(0.01)
            output = StringCodec.encode_output(name="output", payload=[word], use_bytes=True)
            yield InferenceResponse(model_name=self._settings.name, outputs=[output])
"""
TYPED = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import decode_args
from mlserver.logging import logger

class Adder(MLModel):
    @decode_args
    async def predict(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        logger.info("adding")
        return left + right
"""
JSON = """
import json
import mlserver.types as types
from mlserver import MLModel
from mlserver.errors import MLServerError
from mlserver.utils import get_model_uri

class Custom(MLModel):
    async def load(self) -> bool:
        with open(await get_model_uri(self._settings, wellknown_filenames=["words.json"])) as file:
            self._words = json.load(file)
        return True

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        asked = self.decode(payload.inputs[0])
        if asked[0] not in self._words:
            raise MLServerError(f"no word {asked[0]}", status_code=404)
        return types.InferenceResponse(
            id=payload.id,
            model_name=self.name,
            model_version=self.version,
            outputs=[
                types.ResponseOutput(
                    name="found", shape=[1], datatype="BYTES", data=[self._words[asked[0]].encode()],
                    parameters=types.Parameters(content_type="str"),
                )
            ],
        )
"""
CODEC = """
from mlserver import MLModel, log, register
from mlserver.codecs import StringCodec, register_input_codec, InputCodec
from mlserver.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput

@register_input_codec
class ShoutCodec(InputCodec):
    ContentType = "shout"

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> str:
        return StringCodec.decode_input(request_input)[0].upper()

class Shouting(MLModel):
    async def load(self) -> bool:
        register("shouted", "How often")
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        log(shouted=1)
        said = self.decode(payload.inputs[0])
        output = StringCodec.encode_output("said", [said])
        return InferenceResponse(model_name=self.name, outputs=[output])
"""


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "models"
    write_model(root, "text", "text_model.TextModel", STREAMING, name="text-model")
    write_model(root, "adder", "models.Adder", TYPED, name="adder", parallel_workers=None, warm_workers=True)
    custom = write_model(
        root, "custom", "models.Custom", JSON, name="custom", parameters={"uri": ".", "version": "v1"}
    )
    (custom / "words.json").write_text(json.dumps({"hi": "there"}))
    write_model(root, "shouting", "models.Shouting", CODEC, name="shouting")
    return root


def test_documented_models_run_unchanged(serve, folder) -> None:
    server: Running = serve(folder)

    streamed = server.infer("text-model", text("what is it"), "generate_stream")
    words = [
        json.loads(line.removeprefix("data: "))["outputs"][0]["data"][0]
        for line in streamed.text.splitlines()
        if line
    ]
    assert words == ["what", "is", "it"]

    left = {"name": "left", "datatype": "FP32", "shape": [2], "data": [1, 2]}
    right = {"name": "right", "datatype": "FP32", "shape": [2], "data": [3, 4]}
    added = server.infer("adder", {"inputs": [left, right]}).json()["outputs"][0]
    assert (added["data"], added["shape"]) == ([4.0, 6.0], [2, 1])
    assert "[mlserver][adder] INFO - adding" in server.text()

    asked = text("hi")
    asked["inputs"][0]["parameters"] = {"content_type": "str"}
    found = httpx.post(f"{server.url}/v2/models/custom/versions/v1/infer", json=asked).json()
    assert found["outputs"][0]["data"] == ["there"]
    asked["inputs"][0]["data"] = ["ho"]
    missing = server.infer("custom", asked)
    assert (missing.status_code, missing.json()["error"]) == (404, "no word ho")

    asked["inputs"][0]["parameters"] = {"content_type": "shout"}
    assert server.infer("shouting", asked).json()["outputs"][0]["data"] == ["HO"]
    assert server.metric("shouted_count", model_name="shouting") == 1


def test_program_starts_its_own_server(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import asyncio
import inferstream.compat
inferstream.compat.install()
import httpx
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import StringCodec
from mlserver.types import InferenceResponse

class Hello(MLModel):
    async def predict(self, payload):
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("said", ["hello"])])

async def main():
    server = MLServer(Settings(http_port=PORT, grpc_port=0, metrics_port=0))
    running = asyncio.create_task(server.start([ModelSettings(name="hello", implementation=Hello)]))
    async with httpx.AsyncClient() as client:
        while True:
            try:
                if (await client.get("http://127.0.0.1:PORT/v2/health/ready")).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.02)
        body = {"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}
        answer = await client.post("http://127.0.0.1:PORT/v2/models/hello/infer", json=body)
        print(answer.json()["outputs"][0]["data"])
    await server.stop()
    await running

asyncio.run(main())
""".replace("PORT", str(_free_port()))
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "['hello']" in done.stdout.splitlines()


def _free_port() -> int:
    import socket

    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        return end.getsockname()[1]


CUSTOM = """
from fastapi import Depends, Header, Response
from pydantic import BaseModel
from mlserver import MLModel, log
from mlserver.handlers import custom_handler
from mlserver.errors import MLServerError

class Question(BaseModel):
    text: str
    times: int = 1

def shouted(loud: bool = False) -> bool:
    return loud

class Custom(MLModel):
    @custom_handler(rest_path="/ask/{who}")
    async def ask(self, who: str, question: Question, loud: bool = Depends(shouted), x_mood: str = Header("calm")):
        log(asked=1)
        text = question.text * question.times
        return {"model": self.name, "who": who, "said": text.upper() if loud else text, "mood": x_mood}

    @custom_handler(rest_path="/ping", rest_method="GET")
    def ping(self) -> Response:
        return Response(b"pong", media_type="text/plain", headers={"x-from": "model"})

    @custom_handler(rest_path="/long", rest_method="GET")
    def long(self, size: int, encoding: str | None = None, status: int = 200) -> Response:
        headers = {} if encoding is None else {"content-encoding": encoding}
        return Response(b"x" * size, status, media_type="text/plain", headers=headers)

    @custom_handler(rest_path="/fail", rest_method="GET")
    async def fail(self) -> None:
        raise ValueError("secret /etc/passwd")

    @custom_handler(rest_path="/teapot", rest_method="GET")
    async def teapot(self) -> None:
        raise MLServerError("no tea", status_code=418)
"""


@pytest.fixture(scope="module")
def custom(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("custom") / "models"
    write_model(root, "custom", "own_routes.Custom", CUSTOM, name="custom")
    running = Running(root, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


def test_custom_routes_follow_fastapi_rules(serve, tmp_path) -> None:
    root = tmp_path / "models"
    write_model(root, "custom", "own_routes.Custom", CUSTOM, name="custom")
    server: Running = serve(root)
    url = server.url

    asked = httpx.post(f"{url}/ask/me?loud=true", json={"text": "hi", "times": 2}, headers={"X-Mood": "glad"})
    assert asked.json() == {"model": "custom", "who": "me", "said": "HIHI", "mood": "glad"}
    wrong = httpx.post(f"{url}/ask/me", json={"times": "many"})
    assert wrong.status_code == 422
    assert {fault["loc"][-1] for fault in wrong.json()["detail"]} == {"text", "times"}

    untyped = httpx.post(f"{url}/ask/me", content=b'{"text": "hi"}')  # httpx names no content type then
    assert (untyped.status_code, untyped.json()["said"]) == (200, "hi")
    broken = httpx.post(f"{url}/ask/me", content=b'{"text": ')
    assert (broken.status_code, broken.json()["detail"][0]["type"]) == (422, "json_invalid")
    other = httpx.post(f"{url}/ask/me", content=b'{"text": "hi"}', headers={"Content-Type": "text/plain"})
    assert other.status_code == 422

    ping = httpx.get(f"{url}/ping")
    assert (ping.text, ping.headers["content-type"], ping.headers["x-from"]) == (
        "pong",
        "text/plain; charset=utf-8",
        "model",
    )
    failed = httpx.get(f"{url}/fail")
    assert failed.status_code == 500
    assert "secret" not in failed.text
    teapot = httpx.get(f"{url}/teapot")
    assert (teapot.status_code, teapot.json()["error"]) == (418, "no tea")
    assert server.metric("asked_count", model_name="custom") == 2

    method = httpx.get(f"{url}/ask/me")
    assert (method.status_code, method.headers["allow"]) == (405, "POST")
    assert method.json() == {"error": "Method Not Allowed"}
    assert httpx.post(f"{url}/v2/repository/models/custom/unload").status_code == 200
    assert httpx.get(f"{url}/ping").text != "pong"  # the server's own, for SageMaker
    assert httpx.post(f"{url}/v2/repository/models/custom/load").status_code == 200
    assert httpx.get(f"{url}/ping").text == "pong"


@pytest.mark.parametrize(
    ("query", "accept", "encoding", "varies"),
    [
        ("size=600", "gzip", "gzip", True),
        ("size=600&status=404", "gzip", "gzip", True),
        ("size=200000", "gzip, deflate", "gzip", True),
        ("size=600", "deflate", "deflate", True),
        ("size=600", "identity", None, True),
        ("size=499", "gzip", None, False),
        ("size=600&status=206", "gzip", None, False),
        ("size=600&encoding=br", "gzip", "br", False),
    ],
)
def test_custom_route_responses_are_compressed(
    custom: Running, query: str, accept: str, encoding: str | None, varies: bool
) -> None:
    with httpx.stream("GET", f"{custom.url}/long?{query}", headers={"Accept-Encoding": accept}) as answer:
        body = b"".join(answer.iter_raw())
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers.get("vary") == ("accept-encoding" if varies else None)
    assert int(answer.headers["content-length"]) == len(body)
    plain = zlib.decompress(body, wbits=47) if encoding in ("gzip", "deflate") else body
    assert plain == b"x" * int(query.partition("&")[0].removeprefix("size="))


def test_disabled_compression_applies_to_custom_routes(start, tmp_path) -> None:
    root = tmp_path / "models"
    write_model(root, "custom", "own_routes.Custom", CUSTOM, name="custom")
    server: Running = start(root, INFERSTREAM_GZIP_ENABLED="false")
    answer = httpx.get(f"{server.url}/long?size=600", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in answer.headers
