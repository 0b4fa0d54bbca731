"""Clients without the right make no model of others leave memory, and what they load and keep counts as their calls.

Class of attacks on what clients share: an eviction is a denial of service for whoever used the model.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cve.apis import FACES, LOADS, PROMPT, TEXT, Headers
from tests.cve.principals import Keys, audited
from tests.serving import Running, eventually, metric, write_model

CVES = ()
"""No advisory of another server is of this class."""

CODE = """
from inferstream import InferenceRequest, InferenceResponse, MLModel


class Heavy(MLModel):
    async def load(self) -> bool:
        self.ballast = b"x" * 150_000_000
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response(["here"])
"""

ROOM = "320MB"
"""Enough for one of the models."""


def write(root: Path, **settings: object) -> Path:
    folder = root / "models"
    for name in ("first", "second"):
        declared = {"inputs": [{"name": "prompt", **TEXT}], "outputs": [{"name": "text", **TEXT}]}
        write_model(folder, name, "heavy.Heavy", CODE, name=name, load="demand", **declared)
    (folder / "settings.json").write_text(json.dumps({"max_memory": ROOM, **settings}))
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(keys: Keys | None = None, **settings: object) -> Running:
        own = {"audit_log": str(tmp_path / "audit.jsonl")}
        if keys is not None:
            own["keys_file"] = keys.write(tmp_path)
        started.append(Running(write(tmp_path, **own, **settings), within=60))
        return started[-1]

    yield start
    for running in started:
        assert running.stop(30) == 0, running.text()
        assert "Traceback" not in running.text()


@pytest.fixture
def keys() -> Keys:
    known = Keys()
    known.add("user", ("infer", "stream"))
    known.add("admin")
    known.add("counted", ("infer", "repository"), limits={"requests_per_second": 0.0001, "burst": 3})
    return known


def evictions(server: Running, headers: Headers) -> float:
    page = httpx.get(f"{server.url}/metrics", headers=headers).text
    return sum(metric(page, "inferstream_model_evictions_total", model=name) for name in ("first", "second"))


def test_key_without_evict_scope_loads_only_into_free_memory(
    start: Callable[..., Running], keys: Keys
) -> None:
    server = start(keys)
    user, admin = keys.bearer("user"), keys.bearer("admin")
    assert FACES["rest"](server, "first", user)[0]
    for known in (False, True):  # whether the server knows what the second one needs
        for face, ask in {**FACES, **LOADS}.items():
            if known and "metadata" in face:
                continue  # it needs no load any more
            done, said = ask(server, "second", user)
            assert not done, face
            if "mcp" not in face:
                assert "clients_may_evict" in said, (face, said)
            assert "first" not in said, "names of other models"
        assert evictions(server, admin) == 2 * known
        assert FACES["rest"](server, "first", user)[0]
        assert FACES["rest"](server, "second", admin)[0]
        assert FACES["rest"](server, "first", admin)[0]


def test_evict_right_does_not_carry_over_on_connection(start: Callable[..., Running], keys: Keys) -> None:
    server = start(keys)
    with httpx.Client(timeout=60) as client:

        def ask(model: str, who: str) -> int:
            url = f"{server.url}/v2/models/{model}/infer"
            return client.post(url, json=PROMPT, headers=keys.bearer(who)).status_code

        assert [ask("first", "admin"), ask("second", "user")] == [200, 503]
        assert [ask("first", "admin"), ask("second", "admin"), ask("first", "user")] == [200, 200, 503]
        assert ask("first", "admin") == 200


def test_setting_grants_evict_right_to_all(start: Callable[..., Running], keys: Keys) -> None:
    server = start(keys, clients_may_evict=True)
    for model in ("first", "second", "first"):
        assert FACES["rest"](server, model, keys.bearer("user"))[0]


def test_everyone_can_evict_without_keys(start: Callable[..., Running]) -> None:
    server = start()
    for model in ("first", "second", "first"):
        assert FACES["rest"](server, model, {})[0]


def test_setting_revokes_evict_right_without_keys(start: Callable[..., Running]) -> None:
    server = start(clients_may_evict=False)
    assert FACES["rest"](server, "first", {})[0]
    with httpx.Client(timeout=60) as client:
        url = f"{server.url}/v2/models/second/infer"
        assert client.post(url, json=PROMPT).status_code == 503
        assert client.post(f"{server.url}/v2/repository/models/second/load").status_code == 200
        assert client.post(url, json=PROMPT).status_code == 200
        assert client.post(f"{server.url}/v2/models/first/infer", json=PROMPT).status_code == 503


def written(server: Running, count: int) -> list[dict[str, Any]]:
    """The lines about loads in the audit log, once there are so many."""
    lines = [line for line in audited(server.folder.parent) if line["operation"] == "repository_write"]
    return lines if len(lines) >= count else []


def keep(server: Running, who: Headers, value: object, model: str = "first", **more: object) -> int:
    body = {"model": model, "keep_alive": value, "stream": False, **more}
    return httpx.post(f"{server.url}/api/generate", json=body, headers=who, timeout=60).status_code


def test_keep_alive_without_evict_right_has_no_effect(start: Callable[..., Running], keys: Keys) -> None:
    server = start(keys, max_memory="2GB")
    user, admin = keys.bearer("user"), keys.bearer("admin")
    for model in ("first", "second"):
        assert FACES["rest"](server, model, user)[0]
    for more in ({}, {"prompt": "x"}):
        assert keep(server, user, 0, **more) == 200, "Ollama's clients say it with each call"
    assert keep(server, admin, 0, "second", prompt="x") == 200
    assert eventually(
        lambda: evictions(server, admin) == 1
    )  # the look that found the second has seen the first
    assert (
        metric(
            httpx.get(f"{server.url}/metrics", headers=admin).text,
            "inferstream_model_in_memory",
            model="first",
        )
        == 1
    )
    lines: Any = eventually(lambda: written(server, 2))
    assert [line["principal"] for line in lines] == ["user", "admin"], "what loads or changes is in the log"


def test_loaded_and_pinned_models_count(start: Callable[..., Running], keys: Keys) -> None:
    server = start(keys)
    counted = keys.bearer("counted")
    statuses = [keep(server, counted, value) for value in ("5m", 0, "5m", "5m", 0, -1)]
    assert statuses == [200, 200, 200, 429, 429, 429]
    lines: Any = eventually(lambda: written(server, 6))
    assert [line["end"] for line in lines] == ["success"] * 3 + ["limit_exceeded"] * 3
    assert {(line["principal"], line["model"]) for line in lines} == {("counted", "first")}
    refused = [keep(server, counted, "nonsense"), keep(server, keys.bearer("user"), "nonsense")]
    assert refused == [400, 400]
