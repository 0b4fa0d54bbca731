"""Installs the package beside Triton's client, in either order and in an older version, and serves."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NEIGHBOUR = "tritonclient[all]"
SHOWN = ("grpcio", "numpy", "opentelemetry-proto", "protobuf", "tritonclient")
OLDER = "tritonclient[grpc,http]==2.53.0"
"""Takes protobuf below 6, and grpcio and numpy below what pyproject.toml asks for."""

COLLECTOR = {"INFERSTREAM_TRACING_SERVER": "127.0.0.1:1"}

MODEL = """
from inferstream import MLModel
from inferstream.types import InferenceResponse, ResponseOutput

class Echo(MLModel):
    async def predict(self, payload):
        outputs = [ResponseOutput(**{**dict(tensor), "name": "y"}) for tensor in payload.inputs]
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""

CLIENT = """
import queue
import sys

import grpc
import numpy as np
import tritonclient.grpc
import tritonclient.http

from inferstream.protos.health_pb2 import HealthCheckRequest, HealthCheckResponse
from inferstream.protos.pool import HEALTH

rest, rpc = sys.argv[1:]
for kind, address in ((tritonclient.http, rest), (tritonclient.grpc, rpc)):
    with kind.InferenceServerClient(address) as client:
        tensor = kind.InferInput("x", [2], "FP32")
        tensor.set_data_from_numpy(np.array([1, 2], np.float32))
        assert client.infer("echo", [tensor]).as_numpy("y").tolist() == [1, 2]
with tritonclient.grpc.InferenceServerClient(rpc) as client:
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer("echo", [tensor])
    result, error = answers.get(timeout=20)
    assert error is None, error
    assert result.as_numpy("y").tolist() == [1, 2]
with grpc.insecure_channel(rpc) as channel:
    check = channel.unary_unary(
        f"/{HEALTH}/Check", HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString
    )
    assert check(HealthCheckRequest(), timeout=20).status == HealthCheckResponse.SERVING
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = work / "source"  # a copy, since a build leaves its own files beside the sources
        shutil.copytree(
            ROOT / "inferstream", source / "inferstream", ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        models = work / "models"
        (models / "echo").mkdir(parents=True)
        (models / "echo" / "echo.py").write_text(MODEL)
        (models / "echo" / "model-settings.json").write_text(
            '{"name": "echo", "implementation": "echo.Echo"}'
        )
        print(f"Python {sys.version.split()[0]}")
        first = Environment(work / "first", [str(source), NEIGHBOUR])
        second = Environment(work / "second", [NEIGHBOUR, str(source)])
        traced = Environment(work / "traced", [f"{source}[tracing]", NEIGHBOUR])
        older = Environment(work / "older", [str(source), OLDER])
        first.serve(models, {})
        second.serve(models, {})
        traced.serve(models, COLLECTOR)
        older.serve(models, {})
    return 0


class Environment:
    """A fresh environment with `packages`, each installed by a call of pip of its own."""

    def __init__(self, folder: Path, packages: list[str]) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self._python = folder / "bin" / "python"
        # The working directory and PYTHONPATH would let the environment import these sources.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._outside: dict[str, Any] = {"cwd": folder, "env": variables}
        for package in packages:
            self._pip("install", "--quiet", package)
            shown = package.replace(str(folder.parent / "source"), ".")
            print(f"pip install {shown}: {self._versions()}", flush=True)

    def _pip(self, *arguments: str) -> str:
        command = [self._python, "-m", "pip", "--disable-pip-version-check", *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **self._outside).stdout

    def _versions(self) -> str:
        installed = {item["name"]: item["version"] for item in json.loads(self._pip("list", "--format=json"))}
        return ", ".join(f"{name} {installed[name]}" for name in SHOWN if name in installed)

    def serve(self, models: Path, variables: dict[str, str]) -> None:
        """Start the server on `models` and ask it over REST and gRPC. Raises SystemExit when anything fails."""
        command = [self._python, "-m", "inferstream", "start", models]
        ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
        outside = {**self._outside, "env": self._outside["env"] | variables}
        with subprocess.Popen([*command, *ports], stderr=subprocess.PIPE, text=True, **outside) as server:
            try:
                addresses = _addresses(server)
                subprocess.run([self._python, "-c", CLIENT, *addresses], check=True, timeout=120, **outside)
            finally:
                server.terminate()
                server.communicate(timeout=30)
        if server.returncode:
            raise SystemExit(f"the server ended with exit code {server.returncode}")
        print("  served over REST and gRPC" + "".join(f", {name} set" for name in variables), flush=True)


def _addresses(server: subprocess.Popen[str]) -> list[str]:
    """The server's REST and gRPC addresses, which it prints when its models are ready."""
    said = ""
    for line in server.stderr or ():
        said += line
        if found := re.search(r"^REST +http://([\d.:]+).*^gRPC +([\d.:]+)", said, re.MULTILINE | re.DOTALL):
            return [*found.groups()]
    raise SystemExit(f"the server did not start:\n{said}")


if __name__ == "__main__":
    sys.exit(main())
