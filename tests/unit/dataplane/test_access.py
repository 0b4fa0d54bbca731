"""What is open on loopback and beyond, by operation and not by path."""

import asyncio
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from inferstream.dataplane.access import Action, Authority, build_authority
from inferstream.dataplane.caller import Caller
from inferstream.errors import InvalidSettings, ModelNotFound, PermissionDenied
from inferstream.extensions import discovery, loading
from inferstream.extensions.entries import AUTHORITIES, Plugin
from inferstream.plugins.keys import authority
from inferstream.plugins.keys.authenticator import KeyAuthenticator
from inferstream.plugins.keys.authority import KeyAuthority
from inferstream.plugins.keys.counters import create_counters
from inferstream.plugins.keys.errors import LimitExceeded, Unauthenticated
from inferstream.plugins.keys.principal import Principal
from inferstream.plugins.keys.secret import hash_key, new_key
from inferstream.settings import Settings
from inferstream.types import Headers

CALLER = Caller(Headers(()), "v2")


@pytest.mark.parametrize(
    ("host", "allowed", "opened"),
    [
        ("127.0.0.1", False, True),
        ("localhost", False, True),
        ("::1", False, True),
        ("0.0.0.0", False, False),
        ("example.org", False, False),
        ("0.0.0.0", True, True),
    ],
)
def test_management_docs_and_access_log_are_closed_on_public_addresses(
    host: str, allowed: bool, opened: bool
) -> None:
    access = Authority(Settings(host=host, allow_open_repository=allowed))
    assert access.repository_open is opened
    for action in Action.list_all():
        if opened or not action.closed:
            access.check(action, CALLER)
            continue
        with pytest.raises(PermissionDenied, match=f"{action.closed} is closed .* allow_open_repository"):
            access.check(action, CALLER, "m")
    assert {action for action in Action.list_all() if action.closed} == {
        Action.REPOSITORY_READ,
        Action.REPOSITORY_WRITE,
        Action.ACCESS_LOG,
        Action.DOCUMENTATION,
        Action.REFLECTION,
        Action.SETTINGS,
    }


def test_operation_keeps_its_scope() -> None:
    for name in ("name", "scope", "closed", "is_open", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(Action.SETTINGS, name, None)
    with pytest.raises(AttributeError):
        del Action.SETTINGS.scope
    assert Action.SETTINGS.scope == "access"
    assert Action("settings", scope="access") not in (Action.SETTINGS, *Action.list_all())


def test_embedding_application_controls_its_docs() -> None:
    access = Authority(Settings(host="0.0.0.0"), embedded=True)
    access.check(Action.DOCUMENTATION, CALLER)
    access.check(Action.REFLECTION, CALLER)
    with pytest.raises(PermissionDenied):
        access.check(Action.REPOSITORY_READ, CALLER)


KEY = new_key("abc")


def keyed(tmp_path: Path, scopes: list[str], models: list[str]) -> Settings:
    entry = {
        "id": "abc",
        "principal": "ann",
        "sha256": hash_key(KEY).hex(),
        "scopes": scopes,
        "models": models,
    }
    (tmp_path / "keys.json").write_text(json.dumps({"version": 1, "keys": [entry]}))
    return Settings(keys_file=str(tmp_path / "keys.json"))


def test_key_needs_scope_and_model(tmp_path: Path) -> None:
    access = build_authority(keyed(tmp_path, ["infer", "metrics"], ["a*"]))
    caller = Caller(Headers([(b"x-api-key", KEY.encode())]), "v2")
    access.check(Action.METRICS, caller)
    access.check(Action.INFER, caller, "ab")
    access.check(Action.MODEL_METADATA, caller, "ab")
    assert (caller.principal, access.sees(caller, "ab"), access.sees(caller, "b")) == ("ann", True, False)
    with pytest.raises(PermissionDenied, match='lacks the scope "stream"'):
        access.check(Action.STREAM, caller, "ab")
    for action in (Action.INFER, Action.MODEL_METADATA):
        with pytest.raises(PermissionDenied, match='does not allow the model "b"'):
            access.check(action, caller, "b")


def test_model_code_receives_no_key(tmp_path: Path) -> None:
    access = build_authority(keyed(tmp_path, ["infer"], ["*"]))
    raw = [(b"x-a", b"1"), (b"x-api-key", KEY.encode())]
    split = access.split(raw)
    remembered = Caller(Headers(split[0]), "v2", None, split[1])
    for caller in (Caller(Headers(raw), "v2"), remembered):
        for _ in range(2):  # of a connection, for each of its requests
            access.check(Action.INFER, caller, "m")
            assert (caller.principal, dict(caller.headers)) == ("ann", {"x-a": "1"})
            assert caller.headers.raw == [(b"x-a", b"1")]
    assert Authority(Settings()).split(raw) == (raw, None)


def test_known_key_is_hashed_once_and_still_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = build_authority(keyed(tmp_path, ["infer"], ["*"]))
    caller = Caller(Headers([(b"x-api-key", KEY.encode())]), "v2")
    access.check(Action.INFER, caller, "m")
    hashed: list[str] = []
    authenticated = KeyAuthenticator.authenticate

    def authenticate(self: KeyAuthenticator, secret: str, identities: Sequence[str] = ()) -> Principal | None:
        hashed.append(secret)
        return authenticated(self, secret, identities)

    monkeypatch.setattr(KeyAuthenticator, "authenticate", authenticate)
    access.check(Action.INFER, caller, "m")
    assert hashed == []
    access.check(Action.INFER, Caller(Headers([("authorization", f"Bearer {KEY}")]), "v2"), "m")
    assert hashed == [KEY]
    assert caller.key is not None
    caller.key.expires = 1.0  # type: ignore[attr-defined]
    with pytest.raises(Unauthenticated, match="expired"):
        access.check(Action.INFER, caller, "m")
    assert (caller.principal, caller.key) == (None, None)


async def test_revoked_key_is_removed_from_its_caller(tmp_path: Path) -> None:
    access = build_authority(keyed(tmp_path, ["infer"], ["*"]))
    assert isinstance(access, KeyAuthority)
    caller = Caller(Headers([(b"x-api-key", KEY.encode())]), "v2")
    access.check(Action.INFER, caller, "m")
    (tmp_path / "keys.json").write_text('{"version": 1, "keys": []}')
    await access.keys.reload_keys()
    with pytest.raises(Unauthenticated):
        access.check(Action.INFER, caller, "m")
    assert (caller.principal, caller.key) == (None, None)


async def test_audit_log_works_without_keys_and_records_refusal_once(tmp_path: Path) -> None:
    access = build_authority(Settings(host="0.0.0.0", audit_log=str(tmp_path / "audit.jsonl")))
    with pytest.raises(PermissionDenied) as refused:
        access.check(Action.REPOSITORY_WRITE, CALLER, "m")
    access.record_rejection("load", CALLER, "m", refused.value)
    assert await access.run(Action.CUSTOM_ROUTE, CALLER, "m", partial(asyncio.sleep, 0, 7), 12) == 7
    with pytest.raises(ModelNotFound):
        await access.run(Action.REPOSITORY_WRITE, CALLER, "n", missing)
    await access.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["operation"], line["model"], line["status"], line["bytes"]) for line in lines] == [
        ("repository_write", "m", 403, 0),
        ("custom_route", "m", 200, 12),
        ("repository_write", "n", 404, 0),
    ]
    assert {(line["principal"], line["key"]) for line in lines} == {(None, None)}


async def missing() -> None:
    raise ModelNotFound("n")


async def test_non_inference_requests_are_limited(tmp_path: Path) -> None:
    settings = keyed(tmp_path, ["infer"], ["*"])
    document = json.loads((tmp_path / "keys.json").read_text())
    document["keys"][0]["limits"] = {"requests_per_second": 0.001, "burst": 1}
    (tmp_path / "keys.json").write_text(json.dumps(document))
    access = build_authority(settings)
    caller = Caller(Headers([(b"x-api-key", KEY.encode())]), "v2")
    access.check(Action.CUSTOM_ROUTE, caller, "m")
    await access.run(Action.CUSTOM_ROUTE, caller, "m", partial(asyncio.sleep, 0))
    with pytest.raises(LimitExceeded):
        await access.run(Action.CUSTOM_ROUTE, caller, "m", partial(asyncio.sleep, 0))


class Guard(Authority):
    """An authority of another package."""

    @classmethod
    def of(
        cls, settings: Settings, *, embedded: bool, index: int, count: int, shared: int | None
    ) -> "Guard | None":
        return cls(settings) if settings.server_name == "guarded" else None


class Broken(Authority):
    @classmethod
    def of(cls, settings: Settings, **process: object) -> "Broken | None":
        if settings.server_name == "guarded":
            raise InvalidSettings("the table is empty")
        raise KeyError("table")


def test_settings_select_exactly_one_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Plugin("inferstream", AUTHORITIES, "keys", discovery.plugins(AUTHORITIES)["keys"].value, "keys")
    found = {"keys": keys, "guard": Plugin("guard", AUTHORITIES, "guard", f"{__name__}:Guard", "guard")}
    monkeypatch.setattr(loading, "plugins", lambda group: found if group == AUTHORITIES else {})
    assert type(build_authority(Settings())) is Authority
    assert type(build_authority(Settings(server_name="guarded"))) is Guard
    with pytest.raises(InvalidSettings, match="the settings turn on another authority as well"):
        build_authority(keyed(tmp_path, [], []).model_copy(update={"server_name": "guarded"}))
    for value, reason in (
        (f"{__name__}:KEY", "it is not a subclass of Authority"),
        ("absent:thing", "absent"),
        (f"{__name__}:Broken", r"Broken\): KeyError: 'table'. The server does not start"),
    ):
        found["guard"] = Plugin("guard", AUTHORITIES, "guard", value, "guard")
        with pytest.raises(InvalidSettings, match=reason):
            build_authority(Settings())
    with pytest.raises(InvalidSettings, match=r"^the table is empty$"):
        build_authority(Settings(server_name="guarded"))


def test_authority_restricts_only_with_its_own_check(tmp_path: Path) -> None:
    assert not build_authority(Settings()).restricts
    assert not build_authority(Settings(audit_log=str(tmp_path / "audit.jsonl"))).restricts
    assert not Guard(Settings()).restricts
    assert build_authority(keyed(tmp_path, [], [])).restricts


async def test_front_ends_share_counters_of_the_first(tmp_path: Path) -> None:
    settings = keyed(tmp_path, ["infer"], ["*"])
    document = json.loads((tmp_path / "keys.json").read_text())
    document["keys"][0]["limits"] = {"in_flight": 1}
    (tmp_path / "keys.json").write_text(json.dumps(document))
    first = build_authority(settings, count=2)
    assert first.shared is not None
    second = build_authority(settings, index=1, count=2, shared=first.shared)
    assert second.shared is None
    caller = Caller(Headers([(b"x-api-key", KEY.encode())]), "v2")
    for access in (first, second):
        access.check(Action.INFER, caller)
    assert isinstance(second, KeyAuthority)
    second.keys.quotas.begin(caller.key)  # type: ignore[arg-type]
    with pytest.raises(LimitExceeded):
        await first.run(Action.CUSTOM_ROUTE, caller, "m", partial(asyncio.sleep, 0))
    first.forget(1)  # it was killed
    await first.run(Action.CUSTOM_ROUTE, caller, "m", partial(asyncio.sleep, 0))
    await first.close()
    assert first.shared is None
    assert build_authority(Settings(frontends=2), count=2).shared is None


def test_authority_failing_to_start_closes_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = keyed(tmp_path, ["infer"], ["*"])
    (tmp_path / "keys.json").write_text("{")
    opened: list[int] = []

    def create(count: int) -> int:
        opened.append(create_counters(count))
        return opened[-1]

    monkeypatch.setattr(authority, "create_counters", create)
    with pytest.raises(InvalidSettings):
        build_authority(settings, count=2)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(*opened)
