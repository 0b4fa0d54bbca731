"""The first mistakes of newcomers: each error names the place, the cause and the next step."""

import errno
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from inferstream import Application, Client, serve
from inferstream.cli import start
from inferstream.cli.flags import Flags
from inferstream.cli.main import app as command_line
from inferstream.errors import CallFailed, InferstreamError, ModelLoadFailed, describe_failure
from inferstream.plugins.frameworks.onnx import OnnxModel
from inferstream.plugins.keys.errors import Unauthenticated
from inferstream.plugins.keys.file import KeySource
from inferstream.plugins.llm.grammars import matching
from inferstream.runtimes import framework
from inferstream.server.ports import bind
from inferstream.server.tls import Certificates
from inferstream.settings import ModelSettings
from inferstream.settings.variables import unknown_variables

APP = """
from collections.abc import AsyncIterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from inferstream import App

app = App()
ran = []


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


@app.model
def total(x: NDArray[np.float32]) -> float:
    return float(x.sum())


@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    ran.append(prompt)
    for word in prompt.split():
        yield word
"""

CODE = {
    "syntax.py": APP.replace("-> int:", "-> int"),
    "relative.py": "from .other import name\n",
    "unknown_type.py": "from inferstream import App\napp = App()\nclass Thing: ...\n@app.model\n"
    "def f(a: Thing) -> int:\n    return 1\n",
    "decorated.py": "from inferstream import App\napp = App()\n@app.model\nclass Foo: ...\n",
    "fast.py": "from fastapi import FastAPI\napp = FastAPI()\n",
    "workers.py": APP.replace("@app.model\ndef add", "@app.model(workers=2)\ndef add"),
}

TARGETS = {
    "9 a setting under the name of a flag": (
        "workers.py",
        'workers.py, line 14, function add: field "workers" is unknown; did you mean "parallel_workers"?',
        "",
    ),
    "21 a file that is missing": ("appp.py", "there is no file appp.py", "did you mean app.py?"),
    "22 a folder that is missing": (
        "./modles",
        "there is no file or folder ./modles",
        "did you mean models?",
    ),
    "23 an artefact that is missing": (
        "iris.onnx",
        "there is no file or folder iris.onnx",
        "name a folder, a file such as app.py",
    ),
    "26 a syntax error": (
        "syntax.py",
        "syntax.py, line 15: SyntaxError: expected ':'",
        "correct the line at >>>: def add(a: int, b: int = 1) -> int>>>",
    ),
    "29 a relative import": (
        "relative.py",
        "relative.py, line 1: ImportError: attempted relative import with no known parent package",
        "add an __init__.py to its folder, or start MODULE:app from the folder above",
    ),
    "34 an unsupported type": (
        "unknown_type.py",
        'unknown_type.py, line 4, function f: parameter "a": Thing is not a type that can be sent',
        "write str, int, float, bool, bytes, NDArray[np.float32]",
    ),
    "37 a decorated class": (
        "decorated.py",
        "decorated.py, line 3, class Foo is not a function",
        "decorate a function, or write `class Foo(MLModel)`",
    ),
    "39 a wrong name of an app": (
        "app:application",
        'app "app:application": module app has no application',
        "server start app:app",
    ),
    "40 an app of another framework": (
        "fast.py",
        'app "fast:app" is a FastAPI, not an App',
        "serve it with uvicorn, and mount an `inferstream.Application` in it",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"app.py": APP, **CODE}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(start, "configure_logging", lambda *_, **__: None)
    monkeypatch.setattr(start, "configure_console", lambda *_: None)
    monkeypatch.setattr(start.signals, "handle", lambda *_: None)
    monkeypatch.setattr(start, "_serve", lambda *_: False)
    monkeypatch.setattr(start, "_end", lambda code, message=None: (code, message))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def started(target: str, flags: dict[str, Any] | None = None) -> str:
    """Return the message of `server start` for what it refuses."""
    code, said = start.run(target, Flags(flags or {}), False)
    assert code in (1, 2)
    return str(said)


@pytest.mark.parametrize("mistake", TARGETS)
def test_a_wrong_target(folder: Path, mistake: str) -> None:
    target, cause, step = TARGETS[mistake]
    said = started(target)
    assert said.startswith("error: ")
    assert cause in said
    assert f"\nhint: {step}" in said if step else "did you mean" in said


@pytest.mark.parametrize(
    ("text", "cause", "step"),
    [
        (
            '{"http_port": "eighty"}',
            "settings.json: field \"http_port\": must be an integer, got 'eighty'",
            "",
        ),
        (
            '{"http_port": 80,}',
            'settings.json: line 1 column 18: not valid JSON: a comma before "}"',
            "remove the comma",
        ),
        ("{'host': 1}", "line 1 column 2: not valid JSON: a single quote", "write strings in double quotes"),
        ('{"debug": True}', "line 1 column 11: not valid JSON: True is Python", "write true"),
        ('{"debug" true}', 'not valid JSON: no ":" before this place', 'add the ":"'),
        ("", "line 1 column 1: not valid JSON: the text is empty", "complete it"),
    ],
)
def test_a_wrong_settings_file(folder: Path, text: str, cause: str, step: str) -> None:
    """Mistakes 10 and 11."""
    (folder / "models" / "settings.json").write_text(text)
    said = started("models")
    assert cause in said
    assert f"\nhint: {step}" in said if step else "hint" not in said


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("INFERSTREAM_PORT", "9000", "INFERSTREAM_HTTP_PORT"),
        ("INFERSTREAM_HTPP_PORT", "9000", "INFERSTREAM_HTTP_PORT"),
        ("INFERSTREAM_WORKERS", "2", "INFERSTREAM_PARALLEL_WORKERS"),
        ("INFERSTREAM_PORT", "tcp://10.0.0.1:8080", None),
        ("INFERSTREAM_WARM", "1", ""),
    ],
)
def test_a_wrong_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, meant: str | None
) -> None:
    """Mistakes 18 and 19. Kubernetes sets NAME_PORT for a Service of that name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {name: value})
    hint = f"; did you mean {meant}?" if meant else ""
    assert [*unknown_variables()] == ([] if meant is None else [f"{name} is unknown and ignored{hint}"])


@pytest.mark.parametrize(
    ("text", "cause", "step"),
    [
        (
            None,
            "keys.json: there is no such file",
            "make the first key with `server keys add --principal NAME",
        ),
        (
            "sk-1\nsk-2\n",
            "keys.json: line 1 column 1: not valid JSON",
            "write the file with `server keys add",
        ),
        ('["sk-1"]', "keys.json: must hold a JSON object", "write the file with `server keys add"),
        (
            '{"version": 1, "keys": [{"id": "a", "principal": "p", "sha256": "0", "scopes": []}]}',
            'keys.json: id "a": "models" is missing',
            'write "models": ["*"] for all models',
        ),
        (
            '{"version": 1, "keys": [{"id": "a", "principal": "p", "sha256": "0", "scopes": ["root"], "models": []}]}',
            'id "a": scope "root" is unknown; there are infer, stream',
            "",
        ),
    ],
)
def test_a_wrong_keys_file(folder: Path, text: str | None, cause: str, step: str) -> None:
    """Mistakes 12 to 14."""
    if text is not None:
        Path("keys.json").write_text(text)
    with pytest.raises(InferstreamError) as refused:
        KeySource("keys.json").read()
    assert cause in refused.value.message
    assert f"; hint: {step}" in refused.value.message if step else True


def test_a_certificate_that_is_not_pem(tmp_path: Path) -> None:
    """Mistake 16."""
    (tmp_path / "cert.pem").write_text("hello")
    with pytest.raises(InferstreamError) as refused:
        Certificates({"ssl_certfile": "cert.pem"}, str(tmp_path), "_custom_rest_server_settings")
    cause, _, step = refused.value.message.partition("; hint: ")
    assert cause == f"certificate {tmp_path}/cert.pem: not in PEM form"
    assert step.startswith("name a file that begins with -----BEGIN")


def test_a_port_in_use_and_an_address_of_another_machine() -> None:
    """Mistakes 7 and 46."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InferstreamError) as refused:
            bind("127.0.0.1", port, "REST")
    assert refused.value.message == (
        f"REST port {port} on 127.0.0.1 is already in use; hint: choose another one with --port"
    )
    for host in ("10.99.99.99", "no-such-host.invalid"):
        with pytest.raises(InferstreamError) as refused:
            bind(host, 0, "REST")
        assert refused.value.message == (
            f"--host {host}: this machine has no such address; hint: listen on --host 127.0.0.1, "
            "or on all addresses with --host 0.0.0.0"
        )
        assert errno.errorcode[errno.EADDRNOTAVAIL] not in refused.value.message


@pytest.mark.parametrize(("flag", "name"), [("port", "--port"), ("http_port", "--http-port")])
def test_a_value_out_of_range_quotes_the_flag(folder: Path, flag: str, name: str) -> None:
    """Mistake 45."""
    assert started("models", {flag: 99999}) == f"error: {name} 99999: must be at most 65535"


def test_a_command_that_is_a_target_and_commands_of_other_programs(folder: Path, monkeypatch: Any) -> None:
    """Mistake 43."""
    ran = CliRunner().invoke(command_line, ["app.py"])
    assert ran.exit_code == 2
    assert "hint: server start app.py" in ran.output
    targets: list[str] = []
    monkeypatch.setattr(start, "run", lambda target, flags, watch: targets.append(target) or 0)
    for arguments in (["start"], ["run", "app.py"], ["serve", "models"]):
        assert CliRunner().invoke(command_line, arguments).exit_code == 0
    assert targets == [".", "app.py", "models"]


async def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistake 6."""

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(framework, "import_module", missing)
    settings = ModelSettings(name="m", implementation=OnnxModel, parameters={"uri": __file__})
    with pytest.raises(ModelLoadFailed) as failed:
        await OnnxModel(settings).load()
    assert describe_failure(failed.value.message) == (
        "error: Model m did not load: it needs onnxruntime, which is not installed\n"
        'hint: pip install "onnxruntime>=1.26"'
    )
    assert failed.value.__suppress_context__  # no traceback of importlib

    def no_tokens() -> Any:
        missing("llguidance")

    assert not matching.Grammars(no_tokens).usable


@contextmanager
def free_port() -> Iterator[int]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening, so that connections are refused
        yield unused.getsockname()[1]


@pytest.mark.parametrize("command", [["bench", "m", "-u"], ["top", "--once"], ["tail"]])
def test_a_command_without_a_server(command: list[str]) -> None:
    """Mistakes 53 and 54."""
    with free_port() as port:
        ran = CliRunner().invoke(command_line, [*command, f"127.0.0.1:{port}"])
    assert ran.exit_code == 1
    assert ran.stderr.splitlines() == [
        f"error: no server at http://127.0.0.1:{port}: the connection was refused",
        "hint: start it with `server start`, or name the address of a running server",
    ]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_client_without_a_server(scheme: str) -> None:
    with free_port() as port, Client(f"{scheme}://127.0.0.1:{port}") as client:
        with pytest.raises(CallFailed) as failed:
            client.predict("m", a=1)
    assert f"127.0.0.1:{port}: the connection was refused; hint: start it" in failed.value.message


def tensor(shape: list[int], data: list[float]) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": data}]}


V2 = "/v2/models"
NOT_FOUND = "Not Found; hint: POST /v2/models/NAME/infer or generate calls a model"
REQUESTS = {
    "57 too few values": (
        "POST",
        f"{V2}/total/infer",
        json.dumps(tensor([1, 4], [1, 2, 3])),
        400,
        'argument "x": 3 values do not fit shape [1, 4], which takes 4',
    ),
    "60 single quotes": (
        "POST",
        f"{V2}/add/infer",
        "{'inputs': []}",
        400,
        "The body is not valid JSON: line 1 column 2: a single quote; hint: write strings in double quotes",
    ),
    "60 an empty body": (
        "POST",
        f"{V2}/add/generate",
        "",
        400,
        "The body is empty; hint: send a JSON object",
    ),
    "62 an unknown version": (
        "POST",
        f"{V2}/add/versions/7/generate",
        '{"a": 1}',
        404,
        "Model add with version 7 not found; it has no versions; hint: leave the version out",
    ),
    "63 generate of a stream": (
        "POST",
        f"{V2}/words/generate",
        '{"prompt": "one"}',
        501,
        "Model words returns a stream; call it as a stream (infer_stream, generate_stream, ModelStreamInfer",
    ),
    "65 a wrong route": ("POST", "/add", "{}", 404, NOT_FOUND),
    "65 a wrong action": (
        "POST",
        f"{V2}/add/predict",
        "{}",
        404,
        "; hint: POST /v2/models/NAME/infer, infer_stream, generate or generate_stream calls a model",
    ),
    "65 a wrong method": (
        "GET",
        f"{V2}/add/infer",
        "",
        405,
        "Method Not Allowed; hint: POST /v2/models/add/infer",
    ),
    "68 an unknown model": (
        "POST",
        "/v1/chat/completions",
        '{"model": "nope", "messages": [{"role": "user", "content": "x"}]}',
        404,
        "Model nope not found; models that take text: words",
    ),
    "68 a model that takes no text": (
        "POST",
        "/v1/chat/completions",
        '{"model": "add", "messages": [{"role": "user", "content": "x"}]}',
        400,
        "model: add does not take text; hint: GET /v1/models lists the models that take text",
    ),
    "68 no messages": (
        "POST",
        "/v1/chat/completions",
        '{"model": "words"}',
        400,
        'messages: is missing; hint: send "messages": [{"role": "user", "content": "Hello"}]',
    ),
}


async def test_wrong_requests(folder: Path) -> None:
    async with Application("app.py") as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for mistake, (method, path, body, status, said) in REQUESTS.items():
                refused = await client.request(method, path, content=body)
                error = refused.json()["error"]
                message = error["message"] if isinstance(error, dict) else error
                assert (refused.status_code, said in message) == (status, True), (mistake, message)
    assert sys.modules["app"].ran == []  # 63: the model has not run


def test_a_request_without_a_valid_key() -> None:
    """Mistake 68."""
    assert Unauthenticated().message == (
        "The request needs a valid key; hint: send it in the header `Authorization: Bearer KEY`"
    )


def test_a_class_that_is_no_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mistake 49, and the banner after a load that fails."""
    for name in ("bad", "good"):
        at = folder / "models" / name
        at.mkdir()
        (at / f"{name}.py").write_text(
            "from inferstream import MLModel\n"
            f"class Model{'(MLModel)' if name == 'good' else ''}:\n    def predict(self, payload):\n        ...\n"
        )
        (at / "model-settings.json").write_text(json.dumps({"implementation": f"{name}.Model"}))
    with pytest.raises(ModelLoadFailed) as failed, serve("models", background=True, strict=True):
        pass
    assert failed.value.message == (
        'Model bad did not load: implementation "bad.Model" is not a subclass of MLModel; '
        "hint: write `from inferstream import MLModel` and `class Model(MLModel)`"
    )
