"""The command line: what reaches each command of what is written after `server`."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from inferstream import __version__
from inferstream.cli import demo, init, start
from inferstream.cli.flags import Flags
from inferstream.cli.main import app


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    """A server starts without the garbage collector."""
    yield
    gc.enable()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a server was started with."""
    calls: list[Any] = []

    def run(target: str, flags: Flags, watch: bool) -> int:
        calls.extend((target, flags, watch))
        return 3

    monkeypatch.setattr(start, "run", run)
    return calls


def called(*arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(app, [*arguments])
    assert ran.exit_code == code, ran.output
    return ran.output


def test_the_version_is_printed_and_nothing_else() -> None:
    assert called("--version") == f"inferstream, version {__version__}\n"


def test_nothing_is_a_question_for_help() -> None:
    said = called(code=2)
    for command in ("start", "demo", "init", "models", "proto", "alias", "keys"):
        assert command in said


def test_flags_are_settings_and_those_that_are_absent_are_none(started: list[Any]) -> None:
    called("start", "folder", "--http-port", "1", "--no-access-log", "--strict", "--reload", code=3)
    target, flags, watch = started
    given = {name: value for name, value in flags.settings.items() if value is not None}
    assert (target, watch) == ("folder", True)
    assert given == {"http_port": 1, "access_log": False, "strict": True}
    assert not any(value is not None for value in flags.joined.values())
    assert flags == Flags(flags.settings, flags.joined)


def test_flags_that_are_no_settings_have_places_of_their_own(started: list[Any]) -> None:
    called(
        "start", "app.py", "--port", "5", "--transport", "jsonrpc", "--one-port", "--model-name", "m", code=3
    )
    given = {name: value for name, value in started[1].joined.items() if value is not None}
    assert given == {"port": 5, "transport": "jsonrpc"}
    assert started[1][2:] == ({}, True, "m")


def test_kserve_writes_flags_with_underscores(started: list[Any]) -> None:
    called("start", "folder", "--model_name", "iris", "--http_port", "1", code=3)
    assert (started[1].model_name, started[1].settings["http_port"]) == ("iris", 1)


def test_a_certificate_that_is_not_there_is_a_wrong_flag(started: list[Any]) -> None:
    assert "none.pem" in called("start", "folder", "--tls-cert", "none.pem", code=2)
    assert started == []


def test_the_demo_has_one_port_under_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[Any] = []
    monkeypatch.setattr(demo, "run", lambda given: flags.append(given) or 0)
    for name in ("--port", "--http-port"):
        called("demo", name, "7")
    assert [given["http_port"] for given in flags] == [7, 7]


def test_the_code_of_a_command_is_that_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(init, "run", lambda folder, template: given.append((str(folder), template)) or 1)
    called("init", "there", "-t", "llm", code=1)
    called("init", code=1)
    assert given == [("there", "llm"), (".", "predict")]
