"""What works without an extra, and what the error of the rest is."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from inferstream import extras
from tests.cve.dependencies import FLOORS

MISSING = 'raise ModuleNotFoundError("No module named \'grpc\'", name="grpc")\n'

NEEDED = 'grpc, which is not installed; hint: pip install "grpcio>=1.71"'


@pytest.fixture
def run_without_grpc(tmp_path: Path):
    """Runs Python where grpcio is not installed."""
    (tmp_path / "grpc").mkdir()
    (tmp_path / "grpc" / "__init__.py").write_text(MISSING)
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
        )

    return run


SERVED = """
import asyncio, sys
import httpx
from inferstream import App, Application
import inferstream.cli.main, inferstream.cli.start, inferstream.server.server, inferstream.server.worker
import inferstream.server.frontends.front_end, inferstream.server.grpc.services
import inferstream.protos.converters, inferstream.protos.dataplane_pb2_grpc
from inferstream.compat.finder import install; install()
import mlserver.grpc.converters, mlserver.grpc.dataplane_pb2_grpc
import blazerpc

app = App()

@app.model
def add(a: int, b: int = 1) -> int:
    return a + b

async def main():
    async with Application(app) as application:
        rpc = application._backend.rpcs.find("/inferstream.App/PredictAdd")
        assert rpc is not None
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            response = await client.post("/v2/models/add/generate", json={"a": 1})
            print(response.json()["output"])

asyncio.run(main())
assert "grpc" not in sys.modules
"""


def test_rest_and_grpc_services_do_not_need_grpcio(run_without_grpc) -> None:
    ran = run_without_grpc("-c", SERVED)
    assert (ran.stdout, ran.returncode) == ("2\n", 0), ran.stderr


@pytest.mark.parametrize(
    "code",
    [
        "from inferstream import AsyncClient; AsyncClient('grpc://127.0.0.1:1')",
        "from inferstream import Client; Client('grpc://127.0.0.1:1')",
        "import inferstream.clients.typed",
        "from inferstream.compat.finder import install; install()\n"
        "import asyncio, blazerpc; app = blazerpc.BlazeApp()\n"
        "asyncio.run(blazerpc.BlazeClient().predict('x'))",
        "from inferstream.compat.finder import install; install()\n"
        "import asyncio, blazerpc; app = blazerpc.BlazeApp()\n"
        "asyncio.run(blazerpc.BlazeClient(registry=app.registry).predict('x'))",
        "from inferstream.compat.finder import install; install(); from mlserver.grpc.utils import handle_mlserver_error",
    ],
)
def test_missing_client_dependency_names_the_extra(run_without_grpc, code: str) -> None:
    ran = run_without_grpc("-c", code)
    assert ran.returncode == 1
    assert ran.stderr.strip().splitlines()[-1].endswith(NEEDED), ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["infer", "-m", "m", "-u", "127.0.0.1:1", "--transport", "grpc", "-i", "i.jsonl", "-o", "o.jsonl"],
        ["bench", "m", "--url", "127.0.0.1:1", "--transport", "grpc"],
    ],
)
def test_missing_command_dependency_names_the_extra(
    run_without_grpc, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "i.jsonl").write_text('{"inputs": []}\n')
    ran = run_without_grpc("-m", "inferstream", *command)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert NEEDED.replace("; hint", "\nhint") in ran.stderr
    assert "Traceback" not in ran.stderr + ran.stdout


def test_lowest_versions_have_no_known_vulnerabilities_and_pins_are_not_lower() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    requirements = [Requirement(each) for each in wanted]
    for requirement in requirements:
        if lowest := FLOORS[canonicalize_name(requirement.name)].lowest:
            [floor] = [each.version for each in requirement.specifier if each.operator == ">="]
            assert Version(floor) >= Version(lowest), requirement
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (root / "constraints.txt").read_text(), re.M))
    found = {canonicalize_name(name): version for name, version in pinned.items()}
    for requirement in requirements:
        if (version := found.get(canonicalize_name(requirement.name))) is not None:
            assert requirement.specifier.contains(version), requirement


def test_a_command_installs_the_packages_of_an_extra_on_this_platform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert extras.install_command("onnx") == 'pip install "onnxruntime>=1.26"'
    assert extras.install_command("kafka") == 'pip install "aiokafka[lz4,snappy,zstd]>=0.12"'
    monkeypatch.setattr("sys.platform", "linux")
    assert extras.install_command("xgboost") == 'pip install "scikit-learn>=1.5" "xgboost-cpu>=3.2"'
    monkeypatch.setattr("sys.platform", "darwin")
    assert extras.install_command("xgboost") == 'pip install "scikit-learn>=1.5" "xgboost>=3.2"'


def test_a_source_tree_that_is_not_installed_installs_the_extra_from_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", missing)
    assert extras.install_command("onnx") == 'pip install ".[onnx]"'


def test_a_published_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "IS_PUBLISHED", True)
    assert extras.install_command("onnx") == 'pip install "inferstream[onnx]"'


def test_no_other_place_writes_the_command() -> None:
    package = Path(extras.__file__).parent
    named = re.compile(r"inferstream\[\w")
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".md", ".txt", ".html", ".js")]
    assert [path.name for path in files if named.search(path.read_text("utf-8"))] == []


def test_the_template_of_a_language_model_requires_the_packages_of_its_extra() -> None:
    template = Path(extras.__file__).parent / "cli" / "templates" / "llm" / "requirements.txt"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert template.read_text().splitlines() == project["optional-dependencies"]["transformers"]
