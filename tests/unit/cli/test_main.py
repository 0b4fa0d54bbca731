"""The command line: what reaches each command of what is written after `server`."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from inferstream import __version__
from inferstream.cli import demo, init, start
from inferstream.cli.flags import Flags
from inferstream.cli.main import app
from inferstream.settings import Settings


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


def test_only_the_version_is_printed() -> None:
    assert called("--version") == f"inferstream, version {__version__}\n"


def test_help_is_shown_without_arguments() -> None:
    said = called(code=2)
    for command in ("start", "demo", "init", "models", "proto", "alias", "keys"):
        assert command in said


def test_flags_become_settings_and_missing_flags_are_none(started: list[Any]) -> None:
    called("start", "folder", "--http-port", "1", "--no-access-log", "--strict", "--reload", code=3)
    target, flags, watch = started
    given = {name: value for name, value in flags.settings.items() if value is not None}
    assert (target, watch) == ("folder", True)
    assert given == {"http_port": 1, "access_log": False, "strict": True}
    assert not any(value is not None for value in flags.joined.values())
    assert flags == Flags(flags.settings, flags.joined)


def test_flags_without_a_setting_are_separate(started: list[Any]) -> None:
    called(
        "start", "app.py", "--port", "5", "--transport", "jsonrpc", "--one-port", "--model-name", "m", code=3
    )
    given = {name: value for name, value in started[1].joined.items() if value is not None}
    assert given == {"transport": "jsonrpc"}
    assert started[1].settings["port"] == 5
    assert started[1][2:] == ({}, True, "m")


def test_kserve_flags_with_underscores_are_accepted(started: list[Any]) -> None:
    called("start", "folder", "--model_name", "iris", "--http_port", "1", code=3)
    assert (started[1].model_name, started[1].settings["http_port"]) == ("iris", 1)


def test_missing_certificate_is_a_flag_error(started: list[Any]) -> None:
    assert "none.pem" in called("start", "folder", "--tls-cert", "none.pem", code=2)
    assert started == []


def test_demo_port_has_two_flag_names(monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[Any] = []
    monkeypatch.setattr(demo, "run", lambda given: flags.append(given) or 0)
    for name in ("--port", "--http-port"):
        called("demo", name, "7")
    assert [(given["port"], given["http_port"]) for given in flags] == [(7, None), (None, 7)]


def test_exit_code_of_a_command_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(init, "run", lambda folder, template: given.append((str(folder), template)) or 1)
    called("init", "there", "-t", "llm", code=1)
    called("init", code=1)
    assert given == [("there", "llm"), (".", "predict")]


GROUP: Any = typer.main.get_command(app)
CONTEXT = GROUP.make_context("server", [], resilient_parsing=True)


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Each command and subcommand, with its context."""
    for name in GROUP.list_commands(CONTEXT):
        command = GROUP.get_command(CONTEXT, name)
        context = command.make_context(name, [], parent=CONTEXT, resilient_parsing=True)
        yield name, command, context
        for inner in command.list_commands(context) if hasattr(command, "list_commands") else ():
            within = command.get_command(context, inner)
            yield (
                f"{name} {inner}",
                within,
                within.make_context(inner, [], parent=context, resilient_parsing=True),
            )


NAMED = {name: (command, context) for name, command, context in commands()}
VERB = re.compile(r"[A-Z][a-z]+[ ,]")


@pytest.mark.parametrize("name", NAMED)
def test_help_is_short_and_starts_with_a_verb(name: str) -> None:
    command, context = NAMED[name]
    shown = [each for each in command.get_params(context) if not getattr(each, "hidden", False)]
    lines = [(command.help or "").partition("\n")[0], *(each.help or "" for each in shown)]
    for line in lines:
        assert VERB.match(line), line
        assert len(line) <= 80, line
        assert line.split()[0] not in ("The", "A", "An", "File", "Folder", "Port", "Name's", "Seconds"), line
    assert all(getattr(each, "hidden", False) or each.help for each in shown)


def test_commands_are_grouped_and_options_of_start_too() -> None:
    groups = {name: command.rich_help_panel for name, (command, _) in NAMED.items() if " " not in name}
    assert [*dict.fromkeys(groups.values())] == ["Serve", "Build", "Call and inspect", "Keys", "Other"]
    assert groups["start"] == "Serve"
    assert groups["keys"] == "Keys"
    command, context = NAMED["start"]
    options = [each for each in command.get_params(context) if each.param_type_name == "option"]
    panels = {each.name: each.rich_help_panel for each in options if each.name != "help" and not each.hidden}
    assert {*panels.values()} == {"Network", "Processes", "Logging", "Models", "Development", "Compatibility"}
    assert panels["transport"] == panels["model_name"] == "Compatibility"
    assert panels["offline"] == panels["strict"] == "Models"


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ("host", "host"),
        ("port", "http_port"),
        ("grpc_port", "grpc_port"),
        ("metrics_port", "metrics_port"),
        ("workers", "parallel_workers"),
        ("frontends", "frontends"),
    ],
)
def test_the_help_shows_the_default_of_the_setting(option: str, setting: str) -> None:
    command, context = NAMED["start"]
    [shown] = [each.show_default for each in command.get_params(context) if each.name == option]
    assert shown == str(Settings.model_fields[setting].default)


def test_former_names_of_options_still_work() -> None:
    for name, former in (
        ("start", "--http-port"),
        ("infer", "--use-ssl"),
        ("bench", "--use-ssl"),
        ("bench", "--json"),
    ):
        command, context = NAMED[name]
        [option] = [each for each in command.get_params(context) if former in each.opts]
        assert option.hidden


def test_names_of_other_programs_are_not_listed() -> None:
    named = GROUP.list_commands(CONTEXT)
    assert (named[:2], named[-1]) == (["start", "demo"], "alias")
    assert not {"run", "serve"} & {*named}
    assert GROUP.get_command(CONTEXT, "run") is GROUP.get_command(CONTEXT, "start")
