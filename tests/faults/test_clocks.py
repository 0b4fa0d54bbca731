"""A clock of the machine that jumps by hours, days and a year, forward and back, while a server with keys runs.

What has a length (a lease, a window of a minute, a resumable stream, a cached response) follows the other clock. What has
a date (the end of a key, the tokens of a day, the file of use) follows this one, and must survive that it was wrong.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import httpx_sse
import pytest

from tests.faults.test_surroundings import CLOCKS
from tests.serving import Running, eventually

pytestmark = pytest.mark.skipif(not CLOCKS, reason="libfaketime is not installed")

APP = """
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from inferstream import App

app = App()
calls = 0

@app.model
async def say(prompt: str) -> AsyncIterator[str]:
    for word in prompt.split():
        yield word

@app.model
async def until(file: str) -> AsyncIterator[int]:
    yield 0
    while not Path(file).exists():
        await asyncio.sleep(0.01)
    yield 1

@app.model(cache_enabled=True)
def count(n: int) -> int:
    global calls
    calls += 1
    return calls
"""

DAY = 86_400
JUMPS = ("+25h", "-25h", "+400d", "-400d", "+0")
"""From one to the next the server's clock is moved, and at last it is right."""

LIMITS = {"day": {"tokens_per_day": 2}, "minute": {"tokens_per_minute": 4}, "all": {}, "brief": {}}
SECRETS = {id: f"ifs_{id}_{secrets.token_urlsafe(32)}" for id in LIMITS}
AGES = range(1, 41)
"""Days before today that the file of use has."""


class Jumping(Running):
    """A server whose clock a file moves."""

    def __init__(self, folder: Path) -> None:
        self.clock = folder / "clock"
        self.clock.write_text("+0")
        expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        keys = [
            {
                "id": id,
                "principal": id,
                "sha256": hashlib.sha256(SECRETS[id].encode()).hexdigest(),
                "scopes": ["infer", "stream"],
                "models": ["*"],
                "limits": limits,
                **({"expires": expires} if id == "brief" else {}),
            }
            for id, limits in LIMITS.items()
        ]
        (folder / "app.py").write_text(APP)
        (folder / "keys.json").write_text(json.dumps({"version": 1, "keys": keys}))
        used = {"principal": "all", "requests": 1}
        days = {(datetime.now(UTC) - timedelta(days=age)).date().isoformat(): {"all": used} for age in AGES}
        self.usage = folder / "usage.json"
        self.usage.write_text(json.dumps({"version": 1, "days": days}))
        super().__init__(
            folder / "app.py",
            within=60,
            LD_PRELOAD=str(CLOCKS[0]),
            FAKETIME_TIMESTAMP_FILE=str(self.clock),
            FAKETIME_NO_CACHE="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1",
            INFERSTREAM_KEYS_FILE=str(folder / "keys.json"),
            INFERSTREAM_USAGE_FILE=str(self.usage),
            INFERSTREAM_CACHE_ENABLED="true",
            INFERSTREAM_CACHE_TTL="3600",
        )

    def move(self, jump: str) -> None:
        """Set the clock, and wait until the server has it."""
        self.clock.write_text(jump)
        unit = {"h": "hours", "d": "days"}.get(jump[-1], "hours")
        expected = datetime.now(UTC) + timedelta(**{unit: float(jump.rstrip("hd"))})

        def arrived() -> bool:
            date = parsedate_to_datetime(httpx.get(f"{self.url}/v2").headers["date"])
            return abs((date - expected).total_seconds()) < 600

        eventually(arrived, 30)

    def post(self, id: str, path: str, body: dict) -> httpx.Response:
        headers = {"Authorization": f"Bearer {SECRETS[id]}"}
        return httpx.post(f"{self.url}/v2/models/{path}", json=body, headers=headers, timeout=30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Jumping]:
    running = Jumping(tmp_path)
    yield running
    assert running.stop() == 0, running.text()
    assert "Traceback" not in running.text()


def test_durations_ignore_clock_jumps(server: Jumping, tmp_path: Path) -> None:
    first = server.post("all", "count/generate", {"n": 1}).json()["output"]
    assert server.post("minute", "say/generate_stream", {"prompt": "a b c d"}).text.count('"output"') == 4
    for number, jump in enumerate(JUMPS):
        file = tmp_path / f"end-{number}"
        headers = {"Authorization": f"Bearer {SECRETS['all']}", "Prefer": "resumable"}
        url, body = f"{server.url}/v2/models/until/generate_stream", {"file": str(file)}
        with httpx.stream("POST", url, json=body, headers=headers, timeout=30) as left:
            first_item = next(event for event in httpx_sse.EventSource(left).iter_sse() if event.data)
            assert first_item.json()["output"] == 0
        server.move(jump)
        file.touch()
        headers = {"Authorization": headers["Authorization"], "Last-Event-ID": first_item.id}
        rest = httpx.post(url, headers=headers, timeout=30)
        assert (rest.status_code, rest.text.count('"output":1'), "event: end" in rest.text) == (200, 1, True)
        assert server.post("all", "count/generate", {"n": 1}).json()["output"] == first
        refused = server.post("minute", "say/generate_stream", {"prompt": "a"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) <= 61


def test_key_is_expired_only_while_clock_is_past_expiry(server: Jumping) -> None:
    for jump in JUMPS:
        server.move(jump)
        expected = 401 if jump in ("+25h", "+400d") else 200
        assert server.post("brief", "count/generate", {"n": 2}).status_code == expected


def test_daily_limit_resets_within_a_day(server: Jumping) -> None:
    def say() -> httpx.Response:
        return server.post("day", "say/generate_stream", {"prompt": "a b"})

    assert say().text.count('"output"') == 2
    for jump in JUMPS:
        server.move(jump)
        if jump in ("+25h", "+400d"):  # another day
            assert say().text.count('"output"') == 2
        refused = say()
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) <= DAY


def test_usage_file_keeps_its_days(server: Jumping) -> None:
    for jump in ("+400d", "+0"):
        server.move(jump)
        assert server.post("all", "count/generate", {"n": 3}).status_code == 200
        before = server.usage.stat().st_ino
        eventually(lambda before=before: server.usage.stat().st_ino != before, 30)
    days = json.loads(server.usage.read_text())["days"]
    today = datetime.now(UTC).date()
    assert {(today - timedelta(days=age)).isoformat() for age in AGES} <= days.keys()
    assert days[max(day for day in days if day <= today.isoformat())]["all"]["requests"] >= 1
