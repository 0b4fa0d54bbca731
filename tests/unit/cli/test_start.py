"""What `server start` refuses before it serves, and how it ends."""

import logging
import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferstream.cli import start
from inferstream.cli.flags import Flags
from inferstream.errors import InvalidSettings
from inferstream.settings import Settings

FUNCTIONS = """
from inferstream import App

app = App()

@app.model
def double(a: int) -> int:
    return 2 * a
"""


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the logging of this process as it is."""
    monkeypatch.setattr(start, "configure_logging", lambda *_, **__: None)
    monkeypatch.setattr(start, "configure_console", lambda *_: None)
    monkeypatch.setattr(start.signals, "handle", lambda *_: None)


@pytest.fixture
def ended(quiet: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str | None]]:
    """Runs the command; its code and its last words."""
    monkeypatch.setattr(start, "_end", lambda code, message=None: (code, message))
    monkeypatch.setattr(start, "_serve", lambda *_: pytest.fail("it serves"))

    def run(*arguments: Any, watch: bool = False) -> Any:
        return start.run(*arguments, watch)

    return run


def test_remote_files_cannot_be_watched(ended: Any) -> None:
    code, said = ended("https://models.test/m.tar.gz", Flags({}), watch=True)
    assert code == 1
    assert said.startswith("error: --reload is for folders; `repository_poll`")


def test_model_name_flag_is_refused_for_an_app(ended: Any, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FUNCTIONS)
    code, said = ended(str(tmp_path / "app.py"), Flags({}, model_name="other"))
    assert (code, said) == (1, "error: --model-name is for a folder with one model; an app names its own")


def test_invalid_setting_is_the_last_line(ended: Any, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"http_port": "x"}')
    code, said = ended(tmp_path, Flags({}))
    assert code == 1
    assert "http_port" in said


def test_working_directory_settings_are_ignored_for_another_folder(
    quiet: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(start, "_serve", lambda *_: False)
    monkeypatch.setattr(start, "_end", lambda code, message=None: code)
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.WARNING, "inferstream.settings")  # `server models` raises it
    (tmp_path / "models").mkdir()
    (tmp_path / "settings.json").write_text('{"keys_file": "keys.json"}')
    said = "settings.json of the working folder is not read; that of this server is models/settings.json"
    assert start.run("models", Flags({}), False) == 0
    assert said in caplog.text
    caplog.clear()
    (tmp_path / "models" / "settings.json").write_text("{}")
    assert start.run("models", Flags({}), False) == 0
    assert start.run(".", Flags({}), False) == 0
    assert said not in caplog.text


def test_app_next_to_models_is_logged(
    quiet: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(start, "_serve", lambda *_: False)
    monkeypatch.setattr(start, "_end", lambda code, message=None: code)
    caplog.set_level(logging.WARNING, "inferstream.settings")
    file = tmp_path / "app.py"
    file.write_text(FUNCTIONS)
    assert start.run(tmp_path, Flags({}), False) == 0
    assert "is not served" not in caplog.text
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model-settings.json").write_text('{"implementation": "app.Model"}')
    assert start.run(tmp_path, Flags({}), False) == 0
    said = f"{file} is not served, because its folder has models; hint: server start {file}"
    assert caplog.text.count(said) == 1
    file.write_text("class Model: ...")
    assert start.run(tmp_path, Flags({}), False) == 0
    assert caplog.text.count("is not served") == 1


@pytest.mark.parametrize(("killed", "code"), [(False, 0), (True, 1)])
def test_exit_code_reflects_killed_workers(
    ended: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool, code: int
) -> None:
    served: list[Any] = []
    monkeypatch.setattr(start, "_serve", lambda *parts: served.append(parts) or killed)
    assert ended(tmp_path, Flags({"strict": True}), watch=True) == (code, None)
    [(settings, repository, watch, *_)] = served
    assert (settings.strict, settings._reloads, repository, watch) == (True, True, None, True)
    assert settings.model_repository_root == str(tmp_path)


def missing() -> ValueError:
    error = ValueError("Unable to configure root logger")
    error.__cause__ = KeyError("none")
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("Unsupported version: 7"), "Unsupported version: 7"),
        (missing(), "'none' is missing"),
        (OSError("first\n  second"), "first second"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_invalid_logging_configuration_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(start, "configure_logging", fail)
    with pytest.raises(InvalidSettings) as refused:
        start._configure_logging(Settings())
    assert refused.value.message == f'settings: field "logging_settings": {reason}'


@pytest.mark.parametrize(("given", "shown"), [(None, True), (False, False)])
def test_calls_are_shown_in_a_terminal_by_default(
    quiet: None, monkeypatch: pytest.MonkeyPatch, given: bool | None, shown: bool
) -> None:
    monkeypatch.setattr(start, "is_terminal", lambda stream: True)
    settings = Settings(access_log=given)
    start._configure_logging(settings)
    assert settings.access_log is shown


class Timers(list[Any]):
    """Stands for `threading.Timer`, and keeps what was asked of it."""

    daemon = False

    def __call__(self, seconds: float, *rest: Any, **more: Any) -> "Timers":
        self.append((seconds, *rest, more))
        return self

    def start(self) -> None:
        assert self.daemon, "the process would wait for it"


def test_first_signal_stops_and_second_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, stops, codes = Timers(), [], []
    monkeypatch.setattr(threading, "Timer", timers)
    monkeypatch.setattr(os, "_exit", codes.append)
    watchdog = start.Watchdog(9.0)
    signalled = start.Signalled()
    handlers = signalled.handlers()
    assert handlers[signal.SIGHUP]() is None
    signalled.set_stop(lambda: stops.append(1), watchdog)
    handlers[signal.SIGTERM]()
    assert (len(stops), codes) == (1, [])
    assert [timer[0] for timer in timers] == [9.0]
    handlers[signal.SIGINT]()
    assert codes == [130]


def test_watchdog_starts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers()
    monkeypatch.setattr(threading, "Timer", timers)
    watchdog = start.Watchdog(9.0)
    watchdog.start()
    watchdog.start()
    assert timers == [(9.0, os._exit, {"args": (1,)})]


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        ((1024, 4096), [(4096, 4096)]),
        ((1024, resource.RLIM_INFINITY), [(start.MAX_FILES, resource.RLIM_INFINITY)]),
        ((start.MAX_FILES, resource.RLIM_INFINITY), []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), []),
    ],
)
def test_open_file_limit_is_raised_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: list[tuple[int, int]]
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, wanted: asked.append(wanted))
    start._raise_open_file_limit()
    assert asked == raised
