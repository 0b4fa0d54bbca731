"""Runs `oip-conformance` against this server, MLServer and KServe's, and writes docs/contributing/conformance.md.

Each server is of the Python of an environment of its own, with the models that the package has for it.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from oip_conformance.sentences import Sentence, sentences

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/contributing/conformance.md"
MODELS = ROOT / "conformance/oip_conformance/models"
READY = 60
"""Seconds that a server may take until it answers."""
MARK = "<!-- written by make conformance-matrix: what follows is replaced -->"
ROOMS = {
    "health": "Health over REST",
    "metadata": "Metadata over REST",
    "inference": "Inference over REST",
    "errors": "Errors of inference over REST",
    "binary": "Binary tensors (Triton)",
    "generate": "`generate` and `generate_stream` (Triton)",
    "text_generation": "Text generation over REST",
    "v2_streams": "Streams of V2 responses (MLServer)",
    "statistics": "Statistics (Triton)",
    "rpc_core": "Health and metadata over gRPC",
    "rpc_inference": "Inference over gRPC",
    "rpc_errors": "Errors of inference over gRPC",
    "rpc_streams": "Streams over gRPC (Triton, MLServer)",
    "repository": "Repositories (Triton)",
}


@dataclass(frozen=True)
class Rival:
    """A server: its distribution, the interpreter that has it, and its models among those of the package."""

    title: str
    distribution: str
    python: str
    models: str

    def command(self, http: int, grpc: int, metrics: int) -> tuple[list[str], dict[str, str]]:
        """How to start it, and with which environment."""
        folder = str(MODELS / self.models)
        if self.models == "kserve":
            ports = ["--http_port", str(http), "--grpc_port", str(grpc)]
            return [self.python, f"{folder}/serve.py", *ports], {}
        if self.models == "mlserver":
            ports = {"HTTP": http, "GRPC": grpc, "METRICS": metrics}
            environment = {f"MLSERVER_{name}_PORT": str(port) for name, port in ports.items()}
            environment |= {"MLSERVER_PARALLEL_WORKERS": "0", "MLSERVER_DEBUG": "false"}
            return [str(Path(self.python).parent / "mlserver"), "start", folder], environment
        ports = ["--http-port", str(http), "--grpc-port", str(grpc), "--metrics-port", str(metrics)]
        return [self.python, "-m", "inferstream", "start", folder, *ports], {}

    def version(self) -> str:
        """The version of its distribution."""
        code = f"import importlib.metadata as m; print(m.version({self.distribution!r}))"
        return subprocess.run(
            [self.python, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()


def main() -> None:
    """Run the cases against each server, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rivals", type=Path, help="folder of the environments mlserver and kserve")
    folder = parser.parse_args().rivals.absolute()
    servers = [
        Rival("inferstream", "inferstream", sys.executable, "inferstream"),
        Rival("MLServer", "mlserver", str(folder / "mlserver/bin/python"), "mlserver"),
        Rival("KServe", "kserve", str(folder / "kserve/bin/python"), "kserve"),
    ]
    columns = {f"{server.title} {server.version()}": measured(server) for server in servers}
    head = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{page(columns, sentences())}")


def measured(server: Rival) -> list[dict[str, str]]:
    """What each case came to."""
    http, grpc, metrics = (free_port() for _ in range(3))
    with tempfile.TemporaryDirectory() as folder, started(server.command(http, grpc, metrics), http, folder):
        command = [sys.executable, "-m", "oip_conformance", f"http://127.0.0.1:{http}"]
        command += ["--grpc", f"127.0.0.1:{grpc}", "--json"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "conformance")}
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    cases: list[dict[str, str]] = json.loads(ran.stdout)["cases"]
    return cases


@contextmanager
def started(command: tuple[list[str], dict[str, str]], port: int, folder: str) -> Iterator[None]:
    """The server, from when it is live until the end of the block."""
    with (
        Path(folder, "output").open("w") as output,
        subprocess.Popen(
            command[0], env={**os.environ, **command[1]}, cwd=folder, stdout=output, stderr=output
        ) as process,
    ):
        try:
            wait(port)
            yield
        finally:
            process.terminate()
            process.wait(READY)


def wait(port: int) -> None:
    """Until the server is ready."""
    until = time.monotonic() + READY
    while time.monotonic() < until:
        try:
            urlopen(f"http://127.0.0.1:{port}/v2/health/ready").close()
            return
        except (URLError, OSError):
            time.sleep(0.2)
    raise TimeoutError(f"nothing is ready at port {port} after {READY} s")


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def page(columns: dict[str, list[dict[str, str]]], rows: list[Sentence]) -> str:
    """The table of all servers, and the differences of each."""
    lines = ["| Area | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for room, title in ROOMS.items():
        cells = [
            _cell([case for case in cases if case["name"].startswith(f"{room}.")])
            for cases in columns.values()
        ]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines.append("| All | " + " | ".join(_cell(cases) for cases in columns.values()) + " |")
    for title, cases in columns.items():
        lines += ["", f"## Differences of {title}", "", *_differences(cases, rows)]
        reasons = sorted({case["detail"] for case in cases if case["status"] == "skipped"})
        if reasons:
            lines += ["", "Skipped:", "", *(f"- {reason}" for reason in reasons)]
    return "\n".join(lines) + "\n"


def _cell(cases: list[dict[str, str]]) -> str:
    counts = {
        status: sum(case["status"] == status for case in cases) for status in ("passed", "failed", "skipped")
    }
    asked = counts["passed"] + counts["failed"]
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    return f"{counts['passed']} of {asked}{skipped}" if asked else "skipped"


def _differences(cases: list[dict[str, str]], rows: list[Sentence]) -> list[str]:
    failed: dict[str, list[dict[str, str]]] = {}
    for case in cases:
        if case["status"] == "failed":
            failed.setdefault(case["name"].partition("[")[0], []).append(case)
    if not failed:
        return ["None."]
    lines = ["| Case (`-k`) | Sentence | Response |", "|---|---|---|"]
    for function, several in failed.items():
        texts = [f"[{row.text}]({row.source})" for row in rows if function in row.cases]
        more = f" (and {len(several) - 1} more)" if len(several) > 1 else ""
        lines.append(f"| `{function}`{more} | {texts[0]} | {_escaped(several[0]['detail'])} |")
    return lines


def _escaped(text: str) -> str:
    short = text.replace(str(Path.home()), "~").replace(str(ROOT), ".")
    return "`" + short.replace("|", "\\|").replace("`", "'") + "`"


if __name__ == "__main__":
    main()
