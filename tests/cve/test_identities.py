"""Principals whose names look alike, or are the same for many programs, are never the same principal.

Class of LiteLLM CVE-2026-35030: identities were kept under keys that collide.
"""

import json
import subprocess
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cve.apis import FACES
from tests.cve.principals import Keys, audited, serve_app, token
from tests.serving import SERVER, Running, write_model

CVES = ("CVE-2026-35030",)

APP = """
from inferstream import App

app = App()

@app.model
def double(n: int) -> int:
    return 2 * n

@app.middleware
async def told(call, call_next):
    return await call_next(call)
"""

PLAIN = unicodedata.normalize("NFC", "rene\N{COMBINING ACUTE ACCENT}")

NAMES = [
    PLAIN,
    unicodedata.normalize("NFD", PLAIN),
    PLAIN.upper(),
    PLAIN.title(),
    f"{PLAIN} ",
    f" {PLAIN}",
    f"{PLAIN}.",
    f"{PLAIN}%20",
    "ren%C3%A9",
    "\N{FULLWIDTH LATIN SMALL LETTER R}en\N{LATIN SMALL LETTER E WITH ACUTE}",
    "ren\N{CYRILLIC SMALL LETTER IE}\N{COMBINING ACUTE ACCENT}",
    "stra\N{LATIN SMALL LETTER SHARP S}e",
    "strasse",
    "\N{LATIN SMALL LIGATURE FI}n",
    "fin",
    "a" * 256,
    "a" * 255,
    "a" * 255 + "b",
    "key k0",
    "principal k0",
    "k0",
    "subject:k0",
    '["k0"]',
    ",",
    "%",
]
"""Some become others by case folding, Unicode, trimming, decoding or cutting."""

SUBJECTS = [*NAMES, f"jwt:{PLAIN}", f"jwt:jwt:{PLAIN}"]

ONCE = {"requests_per_second": 0.0001, "burst": 1}

BODY = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [4]}]}

HOSTS: dict[str, dict[str, int]] = {"in-process": {}, "front-ends": {"frontends": 2}}


def everybody() -> tuple[Keys, dict[str, dict[str, str]]]:
    keys = Keys()
    for name in NAMES:
        keys.add(name, ("infer",), limits=ONCE)
    callers = {name: keys.bearer(name) for name in NAMES}
    tokens = {f"jwt:{sub}": {"authorization": f"Bearer {token(sub)}"} for sub in SUBJECTS}
    assert not callers.keys() & tokens.keys()
    return keys, callers | tokens


@pytest.fixture(scope="module", params=HOSTS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, Path, dict[str, dict[str, str]]]]:
    root = tmp_path_factory.mktemp("identities")
    keys, callers = everybody()
    settings = {"usage_file": str(root / "usage.json"), **HOSTS[request.param]}
    running = serve_app(root, keys, APP, tokens={"limits": ONCE}, **settings)
    yield running, root, callers
    if running.process.poll() is None:
        assert running.stop() == 0, running.text()


def ask(running: Running, headers: dict[str, str]) -> int:
    return httpx.post(
        f"{running.url}/v2/models/double/infer", json=BODY, headers=headers, timeout=20
    ).status_code


def test_each_principal_has_own_limit_audit_line_and_usage(
    served: tuple[Running, Path, dict[str, dict[str, str]]],
) -> None:
    running, root, callers = served
    date = time.gmtime().tm_yday
    assert {name: ask(running, headers) for name, headers in callers.items()} == dict.fromkeys(callers, 200)
    assert {name: ask(running, headers) for name, headers in callers.items()} == dict.fromkeys(callers, 429)
    assert running.stop() == 0, running.text()
    lines = [(line["principal"], line["end"]) for line in audited(root)]
    for name in callers:
        ends = sorted(end for principal, end in lines if principal == name)
        assert ends == ["limit_exceeded", "success"], name
    if time.gmtime().tm_yday != date:
        pytest.skip("midnight has passed")
    [used] = json.loads((root / "usage.json").read_text())["days"].values()
    assert sorted(row["principal"] for row in used.values()) == sorted(callers)
    assert {(row["requests"], row["refused"]) for row in used.values()} == {(1, 1)}
    command = [*SERVER, "keys", "usage", "--file", str(root / "usage.json"), "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert sorted(row["principal"] for row in json.loads(shown.stdout)["usage"]) == sorted(callers)


def test_token_usage_stays_apart_from_key_after_restart(tmp_path: Path) -> None:
    keys = Keys()
    keys.add(PLAIN, ("infer",), limits={"tokens_per_day": 2})
    settings = {"usage_file": str(tmp_path / "usage.json")}
    running = serve_app(tmp_path, keys, APP, tokens={"limits": {"tokens_per_day": 2}}, **settings)
    mine = {"authorization": f"Bearer {token(PLAIN)}"}
    assert [ask(running, mine) for _ in range(3)] == [200, 200, 429]
    assert running.stop() == 0, running.text()
    document = json.loads((tmp_path / "usage.json").read_text())
    for keys_of_day in document["days"].values():  # as an earlier version wrote it
        for row in keys_of_day.values():
            row["principal"] = row["principal"].removeprefix("jwt:")
    (tmp_path / "usage.json").write_text(json.dumps(document))
    running = Running(running.folder)
    try:
        assert ask(running, keys.bearer(PLAIN)) == 200
        assert ask(running, mine) == 429
    finally:
        assert running.stop() == 0


def test_principals_are_shared_if_rules_say_so(tmp_path: Path) -> None:
    keys = Keys()
    keys.add(PLAIN, ("infer",), limits={"requests_per_second": 0.0001, "burst": 2})
    rules = {"shared_principals": True, "limits": {"requests_per_second": 0.0001, "burst": 2}}
    running = serve_app(tmp_path, keys, APP, tokens=rules)
    try:
        mine = {"authorization": f"Bearer {token(PLAIN)}"}
        assert [ask(running, each) for each in (mine, keys.bearer(PLAIN), mine)] == [200, 200, 429]
    finally:
        assert running.stop() == 0


def test_key_cannot_name_token_principal(tmp_path: Path) -> None:
    keys = Keys()
    keys.add(f"jwt:{PLAIN}", ("infer",))
    with pytest.raises(AssertionError, match=r'principal "jwt:ren\w": "jwt:" begins those of tokens'):
        serve_app(tmp_path, keys, APP)


WHO = """
from inferstream import MLModel, request_context


class Who(MLModel):
    separates_principals = True

    async def predict(self, payload):
        return self.encode_response([f"<{request_context().cache_salt}>"])

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield await self.predict(payload)
"""

ALIKE = ["alice", "Alice", "alice.", "alice%20", "k0"]


@pytest.fixture(scope="module", params=[*HOSTS, "workers"])
def who(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, dict[str, dict[str, str]]]]:
    """A model that answers with the salt of its caller, which is the principal."""
    root = tmp_path_factory.mktemp("who")
    keys = Keys()
    for name in ALIKE:
        keys.add(name, ("infer", "stream"))
    text = {"datatype": "BYTES", "shape": [1]}
    described = {"inputs": [{"name": "prompt", **text}], "outputs": [{"name": "text", **text}]}
    write_model(root / "models", "who", "who.Who", WHO, name="who", **described)
    host = HOSTS.get(request.param, {"parallel_workers": 1})
    settings = {"keys_file": keys.write(root), **host}
    (root / "models" / "settings.json").write_text(json.dumps(settings))
    running = Running(root / "models", within=60)
    tokens = {f"jwt:{sub}": {"authorization": f"Bearer {token(sub)}"} for sub in ALIKE}
    yield running, {name: keys.bearer(name) for name in ALIKE} | tokens
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("api", FACES)
def test_each_principal_has_own_salt_in_every_api(
    who: tuple[Running, dict[str, dict[str, str]]], api: str
) -> None:
    running, callers = who
    nobody = {"authorization": f"Bearer ifs_k0_{'A' * 43}"}
    for name, headers in callers.items():
        served, said = FACES[api](running, "who", headers)
        assert served, said
        said = said.replace("\\u003c", "<").replace("\\u003e", ">")
        assert f"<{name}>" in said, said
        if api != "websocket":
            assert not FACES[api](running, "who", nobody)[0], "a wrong key after a right one is nobody"
