"""The command `oip-conformance`."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from . import cases as _cases
from .case import CASES
from .http import Http
from .outcome import Difference
from .report import as_json, as_text, run, write_junit
from .rpc import Rpc
from .sentences import by_case
from .server import ROLES, Server, names_of_models

assert _cases.__all__  # importing the package registers the cases


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit.

    The exit code is 0 if no case failed and at least one passed, 2 for a wrong flag, and 1 otherwise.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.models_for is not None:
        sys.exit(_write_models(given.models_for, Path(given.url or "oip-models")))
    if given.url is None:
        parser.error("the address of the server is needed: http://HOST:PORT")
    if not given.url.startswith(("http://", "https://")):
        parser.error(f"expected an address such as http://localhost:8080, found {given.url!r}")
    chosen = [
        case for case in CASES if not given.keywords or any(text in case.name for text in given.keywords)
    ]
    if not chosen:
        parser.error(f"no case has {' or '.join(given.keywords)} in its name")
    http = Http(given.url, given.timeout)
    rpc = Rpc(given.grpc, given.timeout) if given.grpc else None
    try:
        names = names_of_models(http, given.model)
    except Difference as difference:
        print(f"error: {difference}", file=sys.stderr)  # noqa: T201  # a command line's last word
        sys.exit(1)
    for role in ROLES.keys() - names.keys():
        print(f"no model oip-{role}, which {ROLES[role]}", file=sys.stderr)  # noqa: T201
    results = run(chosen, Server(http, rpc, names))
    if rpc is not None:
        rpc.close()
    if given.junit is not None:
        write_junit(results, given.junit)
    print(as_json(results) if given.json else as_text(results, by_case()))  # noqa: T201
    passed = any(result.status == "passed" for result in results)
    sys.exit(0 if passed and not any(result.status == "failed" for result in results) else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "oip-conformance",
        description="Compare a running server with the V2 / Open Inference Protocol, sentence by sentence.",
        epilog="Cases need models: "
        + "; ".join(f"oip-{role} {does}" for role, does in ROLES.items())
        + ". The last cases unload the model of the role identity, and load it again.",
    )
    add = parser.add_argument
    add("url", nargs="?", metavar="URL", help="REST, as http://localhost:8080")
    add("--grpc", metavar="HOST:PORT", help="gRPC, without TLS; its cases are skipped without")
    add("--model", action="append", default=[], metavar="[ROLE=]NAME", help="a model, or the model of a role")
    add("--json", action="store_true", help="print JSON")
    add("--junit", type=Path, metavar="FILE", help="write JUnit's XML")
    add(
        "-k",
        dest="keywords",
        action="append",
        default=[],
        metavar="TEXT",
        help="cases with TEXT in their name",
    )
    add("--timeout", type=float, default=10.0, metavar="SECONDS", help="for each call (10)")
    add(
        "--models-for",
        choices=("inferstream", "mlserver", "kserve"),
        help="write the models of all roles for this server into the folder URL (oip-models), and end",
    )
    return parser


def _write_models(server: str, folder: Path) -> int:
    """Copy the example models, and print how to start the server with them."""
    if folder.exists():
        print(f"error: {folder} exists", file=sys.stderr)  # noqa: T201
        return 1
    starts = {
        "inferstream": f"server start {folder}",
        "mlserver": f"MLSERVER_PARALLEL_WORKERS=0 MLSERVER_DEBUG=false mlserver start {folder}",
        "kserve": f"python {folder}/serve.py --http_port 8080 --grpc_port 8081",
    }
    with as_file(files(__package__) / "models") as models:
        shutil.copytree(models / server, folder, ignore=shutil.ignore_patterns("__pycache__"))
    print(starts[server])  # noqa: T201
    return 0
