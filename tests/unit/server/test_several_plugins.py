"""Plug-ins together: keys, audit lines and the routes of Vertex AI with dialects, and the RPCs of a replica of Ray."""

import json
from pathlib import Path

import httpx
import pytest

from inferstream import App, Application
from inferstream.plugins.ray.rpcs import METHOD_KINDS
from tests.asgi import asking
from tests.plugins.agents.calling import call
from tests.plugins.text.openai.test_states import PATH, Keeping, expect_unopened, user
from tests.plugins.text.openai.test_states import key_file as key_file
from tests.plugins.text.test_text_dialect import Asking, words
from tests.unit.server.test_actions import CALLERS, KEYS, app, entry


async def show(application: Application, who: str, model: str) -> int:
    transport = httpx.ASGITransport(application.asgi)
    headers, _ = CALLERS[who]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        return (await client.post("/api/show", json={"model": model})).status_code


async def test_key_without_scopes_sees_only_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [entry("right", ["infer"], models=["cou*"]), entry("scopeless", [])]
    monkeypatch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": keys}))
    async with Application(app) as application:
        assert await show(application, "without scope", "double") == 200
        assert await show(application, "right", "count") == 200
        assert await show(application, "right", "count:latest") == 200
        assert await show(application, "right", "double") == 403
        assert await show(application, "right", "nothing") == 403
        assert await show(application, "without scope", "nothing") == 404


async def test_key_for_a_model_allows_all_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    key = entry("right", ["infer"], models=["words"])
    monkeypatch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": [key]}))
    versions = [words(parameters={"version": "1"}), words("other", parameters={"version": "1"})]
    async with Asking(*versions) as asked:
        asked.client.headers.update(CALLERS["right"][0])
        listed = (await asked.get("/v1/models")).json()["data"]
        assert {each["id"] for each in listed} == {"words", "words:1"}
        called = {"words": 200, "words:1": 200, "words:2": 404, "other": 403, "other:1": 403, "none:1": 403}
        for name, status in called.items():
            assert (await asked.chat(model=name)).status_code == status
            assert (await asked.get(f"/v1/models/{name}")).status_code == status
            shown = await asked.client.post("/api/show", json={"model": name})
            assert shown.status_code == status
            for method in (name, f"predict.{name}"):
                asking = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"prompt": "a"}}
                answered = (await asked.client.post("/jsonrpc", json=asking)).text
                assert ("does not allow" in answered) == (status == 403)


async def test_stored_response_is_hidden_from_other_clients(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [entry(id, ["infer"]) for id in ("right", "scopeless")]
    monkeypatch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": keys}))
    async with Keeping(key_file) as asking:
        asking.client.headers.update({"x-api-key": KEYS["right"]})
        id = (await asking.told("a"))[0]["id"]
        assert (await asking.told("b", previous_response_id=id))[1][0] == user("a")
        asking.client.headers.update({"x-api-key": KEYS["scopeless"]})
        expect_unopened(await asking.post(PATH, input="b", previous_response_id=id))


async def test_each_request_of_a_body_has_an_access_line(tmp_path: Path) -> None:
    app, log = App(), tmp_path / "audit.jsonl"

    @app.model
    async def double(n: int) -> int:
        return 2 * n

    good, unknown, wrong = call("double", [1], id=1), call("nobody", [1], id=2), call("double", ["x"], id=3)
    async with Application(app, audit_log=str(log)) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for body in ([good, unknown, wrong], [unknown, unknown], unknown, {"jsonrpc": "1.0"}):
                await client.post("/rpc", json=body)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted((line["model"], line["status"]) for line in lines) == [
        ("", 400),
        ("double", 200),
        ("double", 400),
        *[("nobody", 404)] * 4,
    ]


async def test_every_rpc_has_its_kind() -> None:
    application = Application(App(), load_reports="asked")
    rpcs = application._backend.rpcs
    kinds = {path: (each.client_streams, each.server_streams) for path, each in rpcs._rpcs.items()}
    known = {path: (kind.request_streaming, kind.response_streaming) for path, kind in METHOD_KINDS.items()}
    assert known == kinds


async def test_vertex_ai_routes_may_belong_to_another_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIP_HEALTH_ROUTE", "/health")
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/v2/models/double/infer")
    body = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [2]}]}
    async with asking(app) as (client, _):
        assert (await client.get("/health")).status_code == 200
        assert (await client.post("/v2/models/double/infer", json=body)).status_code == 200
