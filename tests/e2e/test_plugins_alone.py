"""Each plug-in can leave: as a distribution of its own, next to a core without plug-ins and those that it requires."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import httpx
import joblib
import pytest
from sklearn.linear_model import LogisticRegression

from inferstream.extensions.discovery import extensions
from scripts.distributions import build_wheels, install_wheels, with_required
from tests.serving import SERVER, Running, eventually
from tests.torchserve import ECHO, archive

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(extensions(ours=True))

LOOP = "asyncio_default_fixture_loop_scope"

TESTED = ("kafka", "keys", "text")
"""Plug-ins whose own tests run."""

APP = '''
from collections.abc import Iterator
from inferstream import App

app = App()


@app.model
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@app.model
def write(prompt: str) -> Iterator[str]:
    """Continue a prompt."""
    yield from (prompt, " and ", "on")
'''

OTHER_SERVER = """
import {module}
from inferstream import App

app = App()


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_wheels(tmp_path_factory.mktemp("wheels"), PLUGINS)


@pytest.fixture
def site(wheels: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    def install(*names: str) -> Path:
        install_wheels((wheels[name] for name in ("", *with_required(*names))), tmp_path / "site")
        return tmp_path / "site"

    return install


@pytest.mark.parametrize("name", TESTED)
def test_plugin_passes_its_own_tests(name: str, site: Callable[..., Path], tmp_path: Path) -> None:
    project = tmp_path / "project"
    copied = ("tests", "tests/artefacts", "tests/plugins")
    files = [file for folder in copied for file in (ROOT / folder).glob("*.py")]
    files += [file for file in (ROOT / "tests/plugins" / name).rglob("*") if file.is_file()]
    for file in (file for file in files if "__pycache__" not in file.parts):
        copy = project / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    lines = [f"{key} = {options[key]}" for key in ("asyncio_mode", LOOP, "addopts")]
    (project / "pytest.ini").write_text("\n".join(["[pytest]", *lines, "filterwarnings = error", ""]))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"tests/plugins/{name}"]
    environment = {**os.environ, "PYTHONPATH": str(site(name))}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:]


def post(server: Running, path: str, body: object, **headers: str) -> httpx.Response:
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(server.url + path, json=body, headers=headers, timeout=20)


def asks_agents(server: Running) -> object:
    call = {"name": "add", "arguments": {"a": 3}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return post(server, "/mcp", body).json()["result"]["structuredContent"]["result"] == 4


def asks_cloudevents(server: Running) -> object:
    event = {"ce_specversion": "1.0", "ce_id": "x", "ce_source": "tests", "ce_type": "any"}
    answered = post(server, "/v2/models/add/infer", INFER, **event)
    return answered.is_success and "ce-id" in answered.headers


def asks_kubernetes(server: Running) -> object:
    return post(server, "/v1/models/add:predict", {"instances": [{"a": 3}]}).json() == {"predictions": [4]}


def asks_page(server: Running) -> object:
    page = httpx.get(server.url + "/", headers={"accept": "text/html"}, follow_redirects=True)
    return "<html" in page.text and "inferstream" in httpx.get(server.url + "/inferstream.js").text


def asks_text(server: Running) -> object:
    body = {"model": "write", "messages": [{"role": "user", "content": "on"}]}
    message = post(server, "/v1/chat/completions", body).json()["choices"][0]["message"]
    return message["content"].endswith("on and on")


def asks_triton(server: Running) -> object:
    return httpx.get(server.url + "/v2/models/add/stats").json()["model_stats"][0]["name"] == "add"


def asks_v2(server: Running) -> object:
    return post(server, "/v2/models/add/infer", INFER).json()["outputs"][0]["data"] == [4]


INFER = {"inputs": [{"name": "a", "shape": [1], "datatype": "INT64", "data": [3]}]}

REQUESTS: dict[str, Callable[[Running], object]] = {
    "agents": asks_agents,
    "cloudevents": asks_cloudevents,
    "kubernetes": asks_kubernetes,
    "page": asks_page,
    "text": asks_text,
    "triton": asks_triton,
}
"""What only a server with the plug-in answers. The others show themselves in what is served or in a file."""

CODE = {
    "blazerpc": OTHER_SERVER.format(module="blazerpc"),
    "mlserver": OTHER_SERVER.format(module="mlserver"),
}
SETTINGS: dict[str, dict[str, object]] = {
    "cloudevents": {"cloudevents_headers": True},
    "kubernetes": {"load_reports": "always"},
}


SERVED_OTHERWISE = ("frameworks", "record", "tools", "torchserve")


@pytest.mark.parametrize("name", [name for name in PLUGINS if name not in SERVED_OTHERWISE])
def test_plugin_is_installed_and_works(name: str, site: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "app.py").write_text(CODE.get(name, APP))
    (folder / "settings.json").write_text(json.dumps(SETTINGS.get(name, {})))
    running = Running(folder, "--strict", target="served/app.py", PYTHONPATH=str(site(name)))
    try:
        assert asks_v2(running)
        assert REQUESTS.get(name, asks_v2)(running)
    finally:
        assert running.stop() == 0, running.text()


def test_frameworks_serve_a_fitted_model(site: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "line").mkdir(parents=True)
    joblib.dump(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), folder / "line" / "model.joblib")
    running = Running(folder, "--strict", PYTHONPATH=str(site("frameworks")))
    try:
        tensor = {"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [1.0]}
        assert running.infer("line", {"inputs": [tensor]}).json()["outputs"][0]["data"] == [1]
    finally:
        assert running.stop() == 0, running.text()


def test_torchserve_serves_an_archive(site: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    archive(folder / "echo.mar", "service:handle", {"service.py": ECHO})
    running = Running(folder, "--strict", PYTHONPATH=str(site("torchserve")))
    try:
        assert httpx.post(f"{running.url}/predictions/echo", content=b"hello").text == "hello"
    finally:
        assert running.stop() == 0, running.text()


def test_a_recording_is_written_and_replayed(site: Callable[..., Path], tmp_path: Path) -> None:
    folder, file = tmp_path / "served", tmp_path / "calls.jsonl"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(json.dumps({"record": {"path": str(file), "bodies": True}}))
    installed = {"PYTHONPATH": str(site("record", "tools"))}
    running = Running(folder, "--strict", target="served/app.py", **installed)
    try:
        assert asks_v2(running)
        eventually(lambda: file.exists() and file.read_text().count("\n") >= 1)
        command = [*SERVER, "replay", str(file), "--against", running.url]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **installed}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        assert running.stop() == 0, running.text()


def test_server_lists_each_plugin_as_own_package(site: Callable[..., Path], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site(*PLUGINS))}
    code = "from inferstream.extensions.discovery import extensions; print(*sorted(extensions()))"
    listed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert listed.stdout.split() == PLUGINS, listed.stderr
