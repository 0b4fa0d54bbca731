"""The model repository extension of Triton. The cases unload the `identity` model and load it again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..case import case, each
from ..outcome import Skip, expect, require, short
from ..rpc import Refused
from ..server import UNKNOWN, Model, Server, require_error

INDEX = "/v2/repository/index"


@case
def index_lists_the_models(server: Server) -> None:
    _require_index(server)
    listed = server.http.post(INDEX, {}).json()
    require(isinstance(listed, list), f"expected a list, got {short(listed)}")
    names = [entry.get("name") for entry in listed if isinstance(entry, dict)]
    require(server.any.name in names, f"expected {server.any.name} in the index, got {short(names)}")


@each(["version", "state", "reason"])
def index_entries_have(server: Server, key: str) -> None:
    _require_index(server)
    entries = [entry for entry in server.http.post(INDEX, {}).json() if entry.get("name") == server.any.name]
    require(bool(entries), f"{server.any.name} is not in the index")
    value = entries[0].get(key, "" if key == "version" else None)
    require(isinstance(value, str), f"expected the string `{key}`, got {short(value)}")


@case
def index_says_ready(server: Server) -> None:
    _require_index(server)
    states = {entry.get("name"): entry.get("state") for entry in server.http.post(INDEX, {}).json()}
    expect(states.get(server.any.name), "READY", "`state`")


@case
def index_takes_an_empty_body(server: Server) -> None:
    _require_index(server)
    expect(
        server.http.call("POST", INDEX).status,
        200,
        "status of POST without a body, as Triton's client sends it",
    )


@case
def unloaded_model_is_not_ready(server: Server) -> None:
    with _unload(server) as model:
        answer = server.http.get(f"{model.path}/ready")
        require(answer.status >= 400, f"an unloaded model is ready: {answer.status}")


@case
def unloaded_model_infers_nothing(server: Server) -> None:
    with _unload(server) as model:
        require_error(server.http.post(f"{model.path}/infer", {"inputs": [model.input("FP32")]}))


@case
def unload_takes_parameters(server: Server) -> None:
    with _unload(server, {"parameters": {"unload_dependents": True}}) as model:
        answer = server.http.get(f"{model.path}/ready")
        require(answer.status >= 400, f"an unloaded model is ready: {answer.status}")


@case
def index_of_ready_models_leaves_out_unloaded(server: Server) -> None:
    with _unload(server) as model:
        names = [entry.get("name") for entry in server.http.post(INDEX, {"ready": True}).json()]
        require(model.name not in names, f"{model.name} is unloaded, and in the index of ready models")


@each(["empty", "{}", '{"parameters": {}}'])
def load_takes(server: Server, body: str) -> None:
    with _unload(server) as model:
        text = b"" if body == "empty" else body.encode()
        headers = {"Content-Type": "application/json"}
        answer = server.http.call("POST", f"/v2/repository/models/{model.name}/load", text, headers)
        expect(answer.status, 200, f"status of the load ({short(answer.body)})")
        expect(server.http.get(f"{model.path}/ready").status, 200, "status of readiness after the load")


@case
def loaded_model_loads_again(server: Server) -> None:
    _require_index(server)
    model = server.model("identity")
    answer = server.http.post(f"/v2/repository/models/{model.name}/load", {})
    expect(answer.status, 200, f"status of the load ({short(answer.body)})")
    server.infer(model, [model.input("FP32")])


@each(["load", "unload"])
def unknown_model_is_an_error(server: Server, action: str) -> None:
    _require_index(server)
    require_error(server.http.post(f"/v2/repository/models/{UNKNOWN}/{action}", {}))


@case
def rpc_index_lists_the_models(server: Server) -> None:
    listed = {entry.name: entry.state for entry in _attempt(server, "RepositoryIndex").models}
    expect(listed.get(server.any.name), "READY", f"state of {server.any.name}")


@case
def rpc_unloads_and_loads(server: Server) -> None:
    _require_index(server)
    model = server.model("identity")
    _attempt(server, "RepositoryModelUnload", model_name=model.name)
    try:
        require(server.http.get(f"{model.path}/ready").status >= 400, "an unloaded model is ready")
    finally:
        _attempt(server, "RepositoryModelLoad", model_name=model.name)
    expect(server.http.get(f"{model.path}/ready").status, 200, "status of readiness after the load")


@case
def rpc_load_of_an_unknown_model_is_an_error(server: Server) -> None:
    _attempt(server, "RepositoryIndex")
    server.rpc.refusal("RepositoryModelLoad", model_name=UNKNOWN)


def _require_index(server: Server) -> None:
    status = server.http.post(INDEX, {}).status
    if status in (404, 405, 501):
        raise Skip(f"the server has no {INDEX}: {status}")


def _attempt(server: Server, method: str, **fields: Any) -> Any:
    try:
        return server.rpc.attempt(method, **fields)
    except Refused as error:
        if error.code.name == "UNIMPLEMENTED":
            raise Skip(f"the server has no {method}") from error
        require(False, f"{method}: expected OK, got {error}")


@contextmanager
def _unload(server: Server, body: Any = None) -> Iterator[Model]:
    """Unload the model until the end of the block."""
    _require_index(server)
    model = server.model("identity")
    path = f"/v2/repository/models/{model.name}"
    answer = server.http.post(f"{path}/unload", body or {})
    expect(answer.status, 200, f"status of the unload ({short(answer.body)})")
    try:
        yield model
    finally:
        server.http.post(f"{path}/load", {})
