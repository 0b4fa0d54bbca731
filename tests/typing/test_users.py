"""What users write, under `mypy --strict` and pyright (strict), without plug-ins."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import inferstream

ROOT = Path(__file__).parents[2]

PACKAGES = ("shout", "tenants")
"""Packages of the documentation that are written for type checkers."""

FILES = {
    "settings": """
from inferstream import ModelParameters, ModelSettings, Settings
from inferstream.ext.settings import Section

settings = Settings(debug=False, http_port=9000, kafka_group="a")
parameters = ModelParameters(uri="x")
model = ModelSettings(name="m", implementation="m.Model", max_batch_size=4, parameters=parameters)
print(settings.grpc_port, parameters.version, model.max_batch_time)
print(settings.kafka_group.upper())


class LoudSettings(Section):
    loud_marks: int = 1


print(settings.section(LoudSettings).loud_marks + 1)
""",
    "models": """
from collections.abc import AsyncIterator, Iterator

from inferstream import InferenceRequest, InferenceResponse, MLModel, StringCodec


class Sync(MLModel):
    def load(self) -> bool:
        return True

    def unload(self) -> None:
        return None

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        [text] = StringCodec.decode_input(payload.inputs[0])
        output = StringCodec.encode_output("o", [text.upper()])
        return InferenceResponse(model_name=self.name, outputs=[output])


class Async(MLModel):
    async def load(self) -> None:
        await super().load()
        self.weights = [1.0]

    async def unload(self) -> bool:
        self.weights.clear()
        return True

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        async for _ in payloads:
            yield "word"


class Blocking(MLModel):
    def load(self) -> None:
        self.words = ["a"]

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[str]:
        yield from self.words
""",
    "functions": """
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from inferstream import App, Depends, Finished, Headers, RequestContext, request_context

app = App()


def user(headers: Headers) -> str:
    return headers.get("x-user", "nobody")


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


@app.model(batch=4, within_ms=1)
def upper(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


@app.model
async def words(text: str, name: Annotated[str, Depends(user)]) -> AsyncIterator[str]:
    yield name


@app.model
def count(to: int, context: RequestContext, name: str = Depends(user)) -> Iterator[int]:
    print(context.request_id, context.time_remaining, context.headers.get("a"), request_context().cancelled)
    yield from range(add(to))


@app.steps
def letters(states: list[list[str]]) -> list[str | Finished]:
    return [state.pop() if state else Finished() for state in states]


@letters.admit
def begin(text: str) -> list[str]:
    return [*text]
""",
    "embedding": """
from functions import app, user
from models import Async

from inferstream import Application, AsyncClient, Client, testing


def call(client: Client) -> None:
    print(client.predict("add", {"a": 1}), client.predict("add", a=1, timeout=1))
    for item in client.stream("count", to=3):
        print(item)


async def later(client: AsyncClient) -> None:
    print(await client.predict("add", [{"a": 1}], headers={"x-user": "bob"}))
    async for item in client.stream("count", to=3):
        print(item)


async def here() -> None:
    async with Application({"words": Async}, parallel_workers=0) as application:
        print(await application.predict("add", a=1), await application.predict("add", {"a": 1}))
        async for item in application.stream("count", to=3, timeout=1):
            print(item)
        for name, version in application.loaded:
            print(name.upper(), version, application.models.described(name).signature.streams)
        await application.load("words")
        print(await application.unload("words"), [item.reason.upper() for item in await application.index()])
        application.leave()
        await application.drain(1.5)


async def test_async() -> None:
    async with testing.run(app, overrides={user: lambda: "bob"}) as t:
        assert await t.predict("add", a=1) == 2
        assert [item async for item in t.predict_stream("count", to=1)] == [0]
        response = await t.infer("add", a=1, headers={"x-user": "bob"})
        responses = [each async for each in t.stream("count", to=1)]
        print(testing.arrays(response)["output"].tolist(), responses[0].outputs)


def test_sync() -> None:
    with testing.run("./models") as t:
        assert t.predict("add", a=1) == 2
        assert t.predict_stream("count", to=1) == [0]
        print(t.infer("add", a=1, headers={"x-user": "bob"}).outputs)
""",
    "stages": """
from inferstream.ext.calls import Caller, StageContext, StagedModel


def log_retirement() -> None:
    print("retired")


def newest(model: StagedModel, shared: StageContext) -> StagedModel:
    def choose(is_ready: object, caller: Caller) -> str | None:
        return caller.headers.get("x-version")

    return model.around(
        model.handler,
        form=None,
        refuse=None,
        choose=choose,
        at_retirement=(*model.at_retirement, log_retirement),
    )
""",
    "extensions": """
from typing import Any

from inferstream.codecs import InputCodec, StringCodec, register_input_codec
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput


@register_input_codec
class Backwards(InputCodec):
    ContentType = "backwards"

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return False

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> list[str]:
        return [word[::-1] for word in StringCodec.decode_input(request_input)]

    @classmethod
    def encode_output(cls, name: str, payload: list[str], **kwargs: Any) -> ResponseOutput:
        return StringCodec.encode_output(name, [word[::-1] for word in payload])


def text_of(request: InferenceRequest, response: InferenceResponse) -> bytes:
    [text] = StringCodec.decode_output(response.outputs[0])
    return text.encode()
""",
}

WRONG = """
from inferstream import ModelParameters, Settings
from inferstream.ext.calls import StagedModel

Settings(http_port="x")
ModelParameters(uri=1)


def stage(model: StagedModel) -> StagedModel:
    return model.around(model.handler, slots=1).around(model.handler, at_retirement=print)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    for package in PACKAGES:
        shutil.copytree(ROOT / "tests" / "packages" / package / package, tmp_path / package)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return tmp_path


def mypy(folder: Path, *files: str) -> list[str]:
    options = ("--strict", "--config-file=", f"--cache-dir={folder}/cache")
    command = [sys.executable, "-m", "mypy", *options, *files]
    # An editable installation may be a hook of the import system, which type checkers do not run.
    environment = {**os.environ, "MYPYPATH": str(Path(inferstream.__file__).parents[1])}
    said = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert "Found" in said.stdout or "Success" in said.stdout, said
    return [line for line in said.stdout.splitlines() if line.startswith(files) and ": error:" in line]


def test_mypy(folder: Path) -> None:
    assert mypy(folder, *(f"{name}.py" for name in FILES), *PACKAGES) == []
    (folder / "wrong.py").write_text(WRONG)
    places = [line.partition(": ")[0] for line in mypy(folder, "wrong.py")]
    assert places == ["wrong.py:5", "wrong.py:6", "wrong.py:10", "wrong.py:10"]


@pytest.mark.parametrize("pandas", [True, False], ids=["with pandas", "without pandas"])
def test_pyright(folder: Path, pandas: bool) -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    options = ["--pythonpath", sys.executable]
    if not pandas:
        (folder / "pandas.pyi").write_text("")  # a module without the names of pandas
    command = [pyright, *options, "--outputjson", *(f"{name}.py" for name in FILES), *PACKAGES]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    found = json.loads(said.stdout[said.stdout.index("{") :])["generalDiagnostics"]
    assert [each["message"] for each in found if each["severity"] == "error"] == []
