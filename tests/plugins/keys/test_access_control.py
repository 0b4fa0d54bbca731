"""Keys as the server has them."""

import asyncio
import json
import threading
import time
from contextlib import suppress

import msgspec
import pytest

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.plugins.keys import access_control, counters, renewal, tokens, words
from inferstream.plugins.keys.access_control import AccessControl, has_keys
from inferstream.plugins.keys.counters import Counters, create_counters
from inferstream.plugins.keys.errors import LimitExceeded, Unauthenticated
from inferstream.plugins.keys.file import VARIABLE, edit
from inferstream.plugins.keys.principal import KeyLimits
from inferstream.plugins.keys.secret import new_key
from inferstream.types import Headers
from tests.plugins.keys.documents import entry
from tests.plugins.keys.test_tokens import OTHER, jwks, token
from tests.plugins.keys.test_tokens import rules as rules

KEY = new_key("abc")


@pytest.fixture
def settings(tmp_path):
    edit(tmp_path / "keys.json", lambda document: document.keys.append(entry(key=KEY, tokens_per_day=100)))
    return Settings(keys_file=str(tmp_path / "keys.json"), usage_file=str(tmp_path / "usage.json"))


def bearer(key):
    return ((b"authorization", f"Bearer {key}".encode()),)


def authenticate(access, shown):
    return access.authenticate(shown, Headers(()))


def refused(access, key):
    try:
        authenticate(access, bearer(key))
    except Unauthenticated:
        return True
    return False


async def eventually(check):
    async with asyncio.timeout(8):
        while not check():
            await asyncio.sleep(0.02)


def test_configured_keys_are_required(settings, monkeypatch):
    assert has_keys(settings)
    assert not has_keys(Settings())
    monkeypatch.setenv(VARIABLE, "{}")
    assert has_keys(Settings())


def test_request_needs_key(settings):
    access = AccessControl(settings)
    assert authenticate(access, bearer(KEY)).name == "alice"
    assert authenticate(access, (("sec-websocket-protocol", f"inferstream.key.{KEY}"),)).name
    for shown in ((), bearer(new_key("abc")), bearer("eyJ.eyJ.x")):
        with pytest.raises(Unauthenticated):
            authenticate(access, shown)


async def test_revoked_key_is_refused_while_running(settings, tmp_path):
    access = AccessControl(settings)
    authenticate(access, bearer(KEY))
    edit(tmp_path / "keys.json", lambda document: document.keys.clear())
    await access.reload_keys()
    with pytest.raises(Unauthenticated):
        authenticate(access, bearer(KEY))


async def test_key_is_revoked_despite_unloadable_token_rules(settings, rules, tmp_path, monkeypatch):
    edit(tmp_path / "keys.json", lambda document: setattr(document, "jwt", rules))
    access = AccessControl(settings)
    authenticate(access, bearer(KEY))
    authenticate(access, bearer(token()))

    def change(document):
        document.keys.clear()
        document.jwt = msgspec.structs.replace(rules, jwks_file=str(tmp_path / "late.json"))

    edit(tmp_path / "keys.json", change)
    monkeypatch.setattr(access_control, "TICK", 0.01)
    monkeypatch.setattr(renewal, "PAUSE", 0.0)
    task = asyncio.create_task(access.run())
    await eventually(lambda: refused(access, KEY))
    authenticate(access, bearer(token()))
    assert refused(access, token(OTHER, "two"))
    (tmp_path / "late.json").write_text(jwks(OTHER, "two"))
    await eventually(lambda: not refused(access, token(OTHER, "two")))
    task.cancel()
    await asyncio.wait([task])


async def test_key_is_revoked_while_issuer_hangs(settings, rules, tmp_path, monkeypatch):
    asked, answer = threading.Event(), threading.Event()

    def hang(rules):
        asked.set()
        answer.wait(10)
        raise InvalidSettings("no answer")

    monkeypatch.setattr(access_control, "TICK", 0.01)
    access = AccessControl(settings)
    monkeypatch.setattr(tokens, "TokenAuthenticator", hang)
    task = asyncio.create_task(access.run())
    try:
        edit(tmp_path / "keys.json", lambda document: setattr(document, "jwt", rules))
        assert await asyncio.to_thread(asked.wait, 10)
        edit(tmp_path / "keys.json", lambda document: document.keys.clear())
        await eventually(lambda: refused(access, KEY))
    finally:
        answer.set()
        task.cancel()
        await asyncio.wait([task])


def test_header_key_can_be_string_or_bytes(settings):
    access = AccessControl(settings)
    for name, value in (("x-api-key", KEY), (b"x-api-key", KEY.encode())):
        assert authenticate(access, ((name, value),)).name == authenticate(access, bearer(KEY)).name


def test_malformed_key_is_unknown(settings, monkeypatch):
    monkeypatch.setattr(access_control, "MAX_KNOWN", 2)
    access = AccessControl(settings)
    for shown in (bearer(new_key("abc")), ((b"authorization", b"Basic a"),)):
        with pytest.raises(Unauthenticated):
            authenticate(access, shown)
    assert not access.known
    for spaces in range(4):
        authenticate(access, ((b"x-api-key", b" " * spaces + KEY.encode()),))
    assert len(access.known) == 2


async def test_daily_usage_survives_restart(settings, tmp_path):
    first = AccessControl(settings)
    use = first.quotas.begin(authenticate(first, bearer(KEY)))
    use.charge(95)
    use.end()
    await first.close()
    second = AccessControl(settings)
    use = second.quotas.begin(authenticate(second, bearer(KEY)))
    with pytest.raises(LimitExceeded):
        use.charge(6)
    use.charge(5)
    days = json.loads((tmp_path / "usage.json").read_text())["days"]
    assert [keys["abc"]["tokens"] for keys in days.values()] == [95]


@pytest.mark.parametrize(("limits", "left"), [({"tokens_per_day": 100}, 50), ({"in_flight": 5}, 90)])
async def test_keys_without_token_limit_ignore_saved_usage(settings, tmp_path, limits, left):
    """A key that is gone had one: it may have been rotated."""
    other, gone = new_key("other"), new_key("gone")
    with_both = [entry("other", key=other, **limits), entry("gone", key=gone, tokens_per_day=100)]
    edit(tmp_path / "keys.json", lambda document: document.keys.extend(with_both))
    first = AccessControl(settings)
    for key, used in ((other, 40), (gone, 10)):
        use = first.quotas.begin(authenticate(first, bearer(key)), stream=True)
        use.charge(used)
        use.end()
    await first.close()
    edit(tmp_path / "keys.json", lambda document: document.keys.pop())
    second = AccessControl(settings)
    use = second.quotas.begin(authenticate(second, bearer(KEY)))
    use.charge(left)
    with pytest.raises(LimitExceeded):
        use.charge()


def test_surplus_saved_names_do_not_abort_startup(settings, tmp_path, monkeypatch, caplog):
    day = time.strftime("%Y-%m-%d", time.gmtime())
    used = {"requests": 1, "refused": 0, "tokens": 5, "bytes": 0}
    days = {day: {f"{name}": {"principal": f"{name}", **used} for name in range(20)}}
    (tmp_path / "usage.json").write_text(json.dumps({"version": 1, "days": days}))
    monkeypatch.setattr(counters, "ROWS", 3)
    monkeypatch.setattr(words, "ENTRIES", 16)
    AccessControl(settings)
    assert "usage of 19 today is lost" in caplog.text


async def test_usage_of_revoked_key_is_saved(settings, tmp_path):
    access = AccessControl(settings)
    access.quotas.begin(authenticate(access, bearer(KEY))).end()
    edit(tmp_path / "keys.json", lambda document: document.keys.clear())
    await access.reload_keys()
    await access.close()
    assert "abc" in (tmp_path / "usage.json").read_text()


@pytest.fixture
def daily(settings, rules, tmp_path):
    """Settings with tokens, each principal of which may use 10 a day."""
    limited = msgspec.structs.replace(rules, limits=KeyLimits(tokens_per_day=10))
    edit(tmp_path / "keys.json", lambda document: setattr(document, "jwt", limited))
    return settings


async def test_token_usage_survives_restart(daily, tmp_path):
    first = AccessControl(daily)
    for _ in range(10):
        use = first.quotas.begin(authenticate(first, bearer(token())))
        use.charge(1)
        use.end()
    await first.close()
    [keys] = json.loads((tmp_path / "usage.json").read_text())["days"].values()
    assert keys == {
        "jwt:alice": {"principal": "jwt:alice", "requests": 10, "refused": 0, "tokens": 10, "bytes": 0}
    }
    second = AccessControl(daily)
    with pytest.raises(LimitExceeded):
        second.quotas.begin(authenticate(second, bearer(token())))


async def test_usage_of_other_processes_is_saved(daily, tmp_path):
    descriptor = create_counters(2)
    leader = AccessControl(daily, Counters(descriptor, 0, 2))
    other = AccessControl(daily, Counters(descriptor, 1, 2), saves=False)
    for name in ("alice", "bérénice"):
        other.quotas.begin(authenticate(other, bearer(token(sub=name)))).end(3)
        await leader.save()
    await other.close()
    await leader.close()
    [keys] = json.loads((tmp_path / "usage.json").read_text())["days"].values()
    used = {"requests": 1, "refused": 0, "tokens": 3, "bytes": 0}
    assert keys == {f"jwt:{name}": {"principal": f"jwt:{name}"} | used for name in ("alice", "bérénice")}


async def test_only_one_process_saves_usage(settings, tmp_path):
    access = AccessControl(settings, saves=False)
    access.quotas.begin(authenticate(access, bearer(KEY))).end()
    await access.close()
    assert not (tmp_path / "usage.json").exists()


async def test_timer_renews_counts_and_saves(settings, tmp_path, monkeypatch):
    waits = 0
    done = asyncio.Event()
    sleep = asyncio.sleep

    async def tick(seconds):
        nonlocal waits
        assert seconds == access_control.TICK
        waits += 1
        if waits > access_control.SAVE:
            done.set()
        await sleep(0)

    monkeypatch.setattr(access_control.asyncio, "sleep", tick)
    access = AccessControl(settings)
    use = access.quotas.begin(authenticate(access, bearer(KEY)))
    use.charge(1)
    use.end()
    failing = iter([RuntimeError("once")])
    returned = access.quotas.tick
    monkeypatch.setattr(access.quotas, "tick", lambda: returned() if next(failing, None) is None else 1 / 0)
    edit(tmp_path / "keys.json", lambda document: document.keys.append(entry("new")))
    task = asyncio.create_task(access.run())
    await done.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert (tmp_path / "usage.json").exists()
    assert access.quotas._accounts["alice"].left == 0
    assert "new" in access._keys._keys


def test_invalid_file_aborts_startup(settings, tmp_path):
    (tmp_path / "keys.json").write_text("{")
    with pytest.raises(InvalidSettings, match=r"keys\.json: line 1"):
        AccessControl(settings)


def test_proxy_is_an_address_or_network():
    assert Settings(trusted_proxies=["10.0.0.0/8", "::1"]).trusted_proxies == ["10.0.0.0/8", "::1"]
    with pytest.raises(ValueError, match="trusted_proxies"):
        Settings(trusted_proxies=["proxy.example"])
