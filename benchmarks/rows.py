"""The rows of a comparison with another commit, and the servers that they need."""

import hashlib
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import load, rpc_load
from .footprint import import_seconds, start_figures
from .servers import FUNCTIONS, MODELS, Target, start_ours
from .socket_load import socket_tokens
from .works import CALLERS, IMAGE, LARGE, SMALL

KEY = "ifs_bench_" + "k" * 43
KEYED = load.INFER.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode(), 1)


class Row(NamedTuple):
    """What one kind of request, token or message costs a server that stays up for all rounds."""

    name: str
    unit: str
    server: str
    port: str
    run: Callable[[int, float], Coroutine[Any, Any, int]]
    """Puts load on a port for some seconds; returns how many units were done."""


class FreshRow(NamedTuple):
    """A figure of processes that start in each round."""

    name: str
    unit: str
    figure: str
    """A key of `fresh_figures`."""
    scale: float


def _rest(request: bytes) -> Callable[[int, float], Coroutine[Any, Any, int]]:
    return lambda port, seconds: load.rest_infer(port, CALLERS, seconds, request)


def _callers(function: Callable[..., Coroutine[Any, Any, int]], *more: Any):
    return lambda port, seconds: function(port, CALLERS, seconds, *more)


def _tensor(function: Callable[..., Coroutine[Any, Any, int]], array: Any, callers: int, *more: Any):
    return lambda port, seconds: function(port, array, callers, seconds, *more)


def _calls(calls: rpc_load.Calls):
    return lambda port, seconds: rpc_load.run_calls(port, calls, 4, CALLERS, seconds)


_COMMON = (
    ("rest-small", "µs a request", "rest", _rest(load.INFER)),
    ("rest-binary", "µs a tensor of 600 KB", "rest", _tensor(load.rest_binary, IMAGE, 4)),
    ("rest-large", "µs a tensor of 16 MB", "rest", _tensor(load.rest_binary, LARGE, 1)),
    ("sse-token", "µs a token", "rest", _callers(load.sse_tokens)),
    ("websocket-message", "µs a message", "rest", _callers(socket_tokens)),
    ("chat-token", "µs a token", "rest", _callers(load.chat_tokens)),
    ("grpc-small", "µs a request", "grpc", _calls(rpc_load.INFER)),
    ("grpc-stream", "µs a message", "grpc", _calls(rpc_load.STREAM)),
)

ROWS: tuple[Row | FreshRow, ...] = (
    *(Row(name, unit, "classes", port, run) for name, unit, port, run in _COMMON),
    Row("rest-json", "µs a tensor of 600 KB", "classes", "rest", _tensor(load.rest_json, IMAGE, 4)),
    Row("rest-key", "µs a request", "keys", "rest", _rest(KEYED)),
    Row("rest-function", "µs a request", "functions", "rest", _rest(load.ADD)),
    Row("sse-function", "µs a token", "functions", "rest", _callers(load.sse_tokens)),
    Row("grpc-raw", "µs a request", "classes", "grpc", _tensor(load.grpc_raw, SMALL, CALLERS, "doubler")),
    Row("grpc-typed", "µs a request", "functions", "grpc", _callers(load.grpc_add, True)),
    *(Row(f"worker-{name}", unit, "worker", port, run) for name, unit, port, run in _COMMON),
    FreshRow("start-cpu", "CPU ms to the first 200", "cpu", 1e3),
    FreshRow("start-time", "ms to the first 200", "seconds", 1e3),
    FreshRow("memory-idle", "MB after the start", "rss", 1e-6),
    FreshRow("import", "CPU ms of the import", "import", 1e3),
)


class UnknownRow(ValueError):
    """A name that neither is nor begins the name of a row."""


def choose_rows(names: str | None, rows: Sequence[Row | FreshRow] = ROWS) -> list[Row | FreshRow]:
    """The rows that comma-separated names or prefixes stand for, in their own order; all without names."""
    if names is None:
        return list(rows)
    prefixes = [name.strip() for name in names.split(",") if name.strip()]
    for prefix in prefixes or [names]:
        if not any(row.name.startswith(prefix) for row in rows) or not prefix:
            raise UnknownRow(
                f"--rows {names}: no row begins with {prefix!r}\n"
                f"available: {', '.join(row.name for row in rows)}"
            )
    return [row for row in rows if row.name.startswith(tuple(prefixes))]


def start_server(kind: str, tree: Path, cpus: set[int], folder: Path) -> Target:
    """A server of the sources in `tree`, of one of the kinds that rows name. `folder` is for its files."""
    variables = {"PYTHONHASHSEED": "0"}  # an order of dicts and sets that all servers share
    if kind == "keys":
        variables["INFERSTREAM_KEYS_FILE"] = str(_write_keys(folder / "keys.json"))
    target = start_ours(
        cpus,
        kind,
        workers=1 if kind == "worker" else 0,
        models=FUNCTIONS if kind == "functions" else MODELS,
        tree=tree,
        quiet=True,
        **variables,
    )
    if "grpc" not in target.ports:
        raise RuntimeError(
            f"the server of {tree.name} for {kind} did not start (code {target.process.wait(10)})"
        )
    return target


def _write_keys(path: Path) -> Path:
    """A file with one key that has limits, so that each request is counted."""
    limits = {"requests_per_second": 1e6, "in_flight": 1000, "tokens_per_minute": 10**12}
    entry = {"id": "bench", "principal": "bench", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
    rights = {"scopes": ["infer", "stream"], "models": ["*"], "limits": limits}
    path.write_text(json.dumps({"version": 1, "keys": [entry | rights]}))
    return path


def fresh_figures(tree: Path, cpus: set[int]) -> dict[str, float]:
    """Seconds, CPU seconds and memory of one start, and CPU seconds of an import."""
    return {**start_figures(cpus, 1, tree, starts=1), "import": import_seconds(tree)}
