"""The process of an engine: it is restarted if it exits, and never outlives the server."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
pytest.importorskip("tokenizers")

from inferstream import ModelSettings
from inferstream.plugins.llm.engine import Engine, guard
from inferstream.plugins.llm.engine.process import EngineProcess
from tests.fake_engine import events, write_tokenizer
from tests.plugins.llm.engine.served import until
from tests.serving import eventually

ROOT = Path(__file__).parents[4]


def has_exited(pid: int) -> bool:
    """Whether a process is gone, or a zombie that its parent has not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def extra(folder: Path, *options: str) -> dict[str, Any]:
    tokenizer = write_tokenizer(folder / "tokenizer")
    address = f"unix:{folder}/engine"
    arguments = [address, str(tokenizer), str(folder / "control"), *options]
    command = [sys.executable, "-m", "tests.fake_engine", *arguments]
    return {"target": address, "command": command, "environment": {"PYTHONPATH": str(ROOT)}}


async def test_engine_is_restarted_and_stopped(tmp_path: Path) -> None:
    made = Engine(ModelSettings(name="llm", implementation=Engine, parameters={"extra": extra(tmp_path)}))
    await made.load()
    [first] = [each["pid"] for each in events(tmp_path / "control", "started")]
    made.ready = True
    os.kill(first, signal.SIGKILL)
    await until(lambda: not made.ready)
    await until(lambda: made.ready)
    pids = [each["pid"] for each in events(tmp_path / "control", "started")]
    assert len(pids) == 2
    await made.unload()
    assert has_exited(pids[1])


def test_secrets_of_server_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERSTREAM_KEYS", "secret")
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setenv("KEPT", "yes")
    made = EngineProcess("llm", "a:1", [sys.executable], {"ADDED": "too"})
    assert {"INFERSTREAM_KEYS", "PYTHONPATH"}.isdisjoint(made._environment)
    assert (made._environment["KEPT"], made._environment["ADDED"]) == ("yes", "too")


async def test_next_version_takes_over(tmp_path: Path) -> None:
    """It loads while the engine of the first one runs, and starts another when that is unloaded."""
    parameters = {"extra": extra(tmp_path)}
    first, second = (
        Engine(ModelSettings(name="llm", implementation=Engine, parameters=parameters)) for _ in range(2)
    )
    await first.load()
    await second.load()
    [pid] = [each["pid"] for each in events(tmp_path / "control", "started")]
    second.ready = True
    await first.unload()
    assert has_exited(pid)
    await until(lambda: len(events(tmp_path / "control", "started")) == 2)
    await until(lambda: second.ready and second._engines is not None and second._engines.targets[0].healthy)
    await second.unload()


CHILDREN = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("polite", [True, False])
def test_guard_stops_whole_group(polite: bool) -> None:
    """When the server closes the pipe, also because it was killed, the engine and its children go."""
    ignores = "" if polite else "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code = "import os; print(os.getpid(), flush=True)\n" + ignores + CHILDREN
    short = f"import runpy, sys; sys.argv = sys.argv[1:]; m = runpy.run_path({guard.__file__!r}); m['main'].__globals__['GRACE_SECONDS'] = 0.1; m['main']()"
    command = [sys.executable, "-c", short, "guard", sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guarded:
        assert guarded.stdin is not None
        assert guarded.stdout is not None
        pids = [int(guarded.stdout.readline()), int(guarded.stdout.readline())]
        guarded.stdin.close()
        assert guarded.wait(20) == 128 + (signal.SIGTERM if polite else signal.SIGKILL)
    for pid in pids:
        eventually(lambda pid=pid: has_exited(pid))


def test_guard_exits_as_its_command() -> None:
    command = [sys.executable, guard.__file__, sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as guarded:
        assert guarded.wait(20) == 7
