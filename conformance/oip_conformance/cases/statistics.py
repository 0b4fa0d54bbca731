"""The statistics extension of Triton."""

from typing import Any

from ..case import case, each
from ..outcome import Skip, expect, require, short
from ..rpc import Refused
from ..server import UNKNOWN, Server, model_path, require_error

DURATIONS = ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output"]


@case
def all_models_are_listed(server: Server) -> None:
    _require_statistics(server)
    listed = server.http.get("/v2/models/stats").ok().get("model_stats")
    names = [entry.get("name") for entry in listed] if isinstance(listed, list) else []
    require(
        server.model("identity").name in names, f"expected the model among the statistics, got {short(names)}"
    )


@case
def one_model_alone(server: Server) -> None:
    _require_statistics(server)
    document = server.http.get(f"{server.model('identity').path}/stats").ok()
    names = {entry.get("name") for entry in document.get("model_stats", [])}
    expect(names, {server.model("identity").name}, "models of one model's statistics")


@each(["version:str", "last_inference:int", "inference_count:int", "execution_count:int", "batch_stats:list"])
def entry_has(server: Server, key: str) -> None:
    name, kind = key.split(":")
    value = _entry(server).get(name)
    require(type(value).__name__ == kind, f"expected `{name}` of kind {kind}, got {short(value)}")


@each(DURATIONS)
def inference_stats_have(server: Server, key: str) -> None:
    value = (_entry(server).get("inference_stats") or {}).get(key)
    counts = (
        isinstance(value, dict) and isinstance(value.get("count"), int) and isinstance(value.get("ns"), int)
    )
    require(counts, f"expected `count` and `ns` of `{key}`, got {short(value)}")


@case
def inferences_are_counted(server: Server) -> None:
    model = server.model("identity")
    before = _entry(server)
    for _ in range(3):
        server.infer(model, [model.input("FP32", [1.5], [1, 1])])
    after = _entry(server)
    expect(
        after["inference_count"] - before["inference_count"],
        3,
        "growth of inference_count after three inferences",
    )
    success = [entry["inference_stats"]["success"]["count"] for entry in (before, after)]
    expect(success[1] - success[0], 3, "growth of success.count after three inferences")


@case
def unknown_model_is_an_error(server: Server) -> None:
    _require_statistics(server)
    require_error(server.http.get(f"{model_path(UNKNOWN)}/stats"))


@case
def rpc_counts_inferences(server: Server) -> None:
    model = server.model("identity")
    counts = []
    for _ in range(2):
        try:
            listed = server.rpc.attempt("ModelStatistics", name=model.name).model_stats
        except Refused as error:
            raise Skip(f"the server has no ModelStatistics: {error}") from error
        require(len(listed) == 1, f"expected the statistics of one model, got {len(listed)}")
        counts.append(listed[0].inference_count)
        server.infer(model, [model.input("FP32", [1.5], [1, 1])])
    expect(counts[1] - counts[0], 1, "growth of inference_count after one inference")


def _entry(server: Server) -> dict[str, Any]:
    _require_statistics(server)
    document = server.http.get(f"{server.model('identity').path}/stats").ok()
    listed = document.get("model_stats")
    if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
        require(False, f"expected a list of objects `model_stats`, got {short(listed)}")
    entry: dict[str, Any] = listed[0]  # type: ignore[index]
    return entry


def _require_statistics(server: Server) -> None:
    status = server.http.get(f"{server.model('identity').path}/stats").status
    if status in (404, 405, 501):
        raise Skip(f"the server has no statistics: {status}")
