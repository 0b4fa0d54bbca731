"""The list of keys: who may read it, what it contains, and that it contains no secret."""

import hashlib
import json
from pathlib import Path

import pytest

from inferstream import Application
from tests.asgi import Client, http, request

SECRET = "ifs_ops_" + "s" * 43
OTHER = "ifs_app_" + "t" * 43


def document() -> str:
    def entry(key: str, scopes: list[str], **more: object) -> dict:
        digest = hashlib.sha256(key.encode()).hexdigest()
        name = key.split("_")[1]
        return {
            "id": name,
            "principal": f"{name}-team",
            "sha256": digest,
            "scopes": scopes,
            "models": ["*"],
        } | more

    limits = {"requests_per_second": 2, "burst": 5, "tokens_per_day": 100}
    keys = [
        entry(SECRET, ["metrics"]),
        entry(OTHER, ["infer"], limits=limits, expires="2040-01-01T00:00:00Z"),
    ]
    subjects = [{"subject": "billing.example", "principal": "billing", "scopes": ["infer"], "models": []}]
    return json.dumps({"version": 1, "keys": keys, "subjects": subjects})


async def listed(key: str | None, **settings: object) -> tuple[int, str]:
    client = Client(request(b""))
    headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    async with Application([], **settings) as application:
        status, body = await client.ask(application.asgi, http("/v2/keys", b"", "GET", headers=headers))
    return status, body.decode()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERSTREAM_KEYS", document())


@pytest.mark.usefixtures("keys")
async def test_list_has_limits_and_no_secret() -> None:
    status, text = await listed(SECRET)
    assert status == 200
    assert "sha256" not in text
    assert SECRET[8:] not in text
    ops, app, billing = json.loads(text)["keys"]
    assert ops == {
        "id": "ops",
        "principal": "ops-team",
        "scopes": ["metrics"],
        "expires": None,
        "limits": {},
        "left": {},
    }
    assert app["limits"] == {"requests_per_second": 2, "burst": 5, "tokens_per_day": 100}
    assert app["left"] == {"requests": 5, "tokens": 100}
    assert app["expires"] == 2208988800
    assert billing["id"] == "subject:billing.example"


@pytest.mark.usefixtures("keys")
async def test_use_of_today_needs_a_usage_file(tmp_path: Path) -> None:
    _, text = await listed(SECRET, usage_file=str(tmp_path / "usage.json"))
    assert [each["today"]["requests"] for each in json.loads(text)["keys"]] == [0, 0, 0]


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(("key", "expected"), [(None, 401), (OTHER, 403), ("ifs_no_" + "x" * 43, 401)])
async def test_list_needs_the_scope_metrics(key: str | None, expected: int) -> None:
    status, text = await listed(key)
    assert status == expected
    assert "ops-team" not in text


async def test_server_without_keys_has_no_list() -> None:
    status, _ = await listed(None)
    assert status == 404
