"""Commands of other packages join those of the server, and one that cannot be used takes nothing from the others."""

import sys
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from inferstream.cli import commands
from inferstream.ext import Flag
from inferstream.extensions.entries import COMMANDS, FLAGS, OURS, Plugin

JOINED = """
import typer

def greet(name: str, times: int = 1) -> None:
    typer.echo(f"hello {name} " * times)

group = typer.Typer()
group.command("one")(lambda: typer.echo("one of a group"))
group.command("two")(lambda: typer.echo("two of a group"))

number = 5
"""

app = typer.Typer(cls=commands.Commands)


@app.command()
def own() -> None:
    """A command of the server."""
    typer.echo("own")


@app.command()
def another() -> None:
    """Another one, because a single command has no name."""


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Plugin]:
    """The commands that packages bring."""
    (tmp_path / "commands_of_others.py").write_text(JOINED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "commands_of_others", raising=False)
    plugins: dict[str, Plugin] = {}
    monkeypatch.setattr(commands, "plugins", lambda group: plugins if group == COMMANDS else {})
    return plugins


def plugin(name: str, value: str, package: str = "other") -> Plugin:
    return Plugin(package, COMMANDS, name, f"commands_of_others:{value}")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def test_function_is_a_command_with_its_arguments(joined: dict[str, Plugin]) -> None:
    joined["greet"] = plugin("greet", "greet")
    ran = called("greet", "you", "--times", "2")
    assert (ran.exit_code, ran.stdout) == (0, "hello you hello you \n")
    assert "greet" in called("--help").stdout


def test_typer_app_is_a_command_group(joined: dict[str, Plugin]) -> None:
    joined["group"] = plugin("group", "group")
    assert called("group", "two").stdout == "two of a group\n"
    assert "group" in called("--help").stdout


def test_server_command_overrides_plugin_command(joined: dict[str, Plugin]) -> None:
    joined["own"] = plugin("own", "greet")
    assert called("own").stdout == "own\n"
    listed = called("--help")
    assert "the server has a command of this name" in listed.stderr
    assert "package other" in listed.stderr


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("number", "TypeError: it is neither a function nor a Typer"),
        ("absent", "has no attribute 'absent'"),
    ],
)
def test_invalid_command_is_skipped_with_its_reason(
    joined: dict[str, Plugin], value: str, reason: str
) -> None:
    joined["broken"] = plugin("broken", value)
    ran = called("broken")
    assert ran.exit_code == 2
    assert reason in ran.stderr
    assert "Traceback" not in ran.stderr
    assert called("own").stdout == "own\n"


def test_builtin_command_error_is_raised(joined: dict[str, Plugin]) -> None:
    joined["broken"] = plugin("broken", "absent", OURS)
    assert isinstance(called("broken").exception, AttributeError)


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> dict[str, Flag]:
    """The flags of an extension `loud` of another package."""
    joined: dict[str, Flag] = {}
    monkeypatch.setattr(
        commands,
        "flags",
        lambda: [(Plugin("other", FLAGS, name, "", "loud"), flag) for name, flag in joined.items()],
    )
    return joined


def started(*arguments: str) -> tuple[Result, list[object]]:
    """A command `start` with the flags of plug-ins, after these arguments."""
    application, kept = typer.Typer(add_completion=False), []

    @application.command(cls=commands.StartCommand)
    def start(context: typer.Context, name: str = "", last: bool = False) -> None:
        kept.append((context.obj, name))

    return CliRunner().invoke(application, [*arguments]), kept


def test_existing_flag_is_skipped(flags: dict[str, Flag]) -> None:
    flags |= {"name": Flag("Another name."), "times": Flag("Times.", int, after="name")}
    ran, kept = started("--times", "2", "--name", "n")
    assert (ran.exit_code, kept) == (0, [({"times": 2}, "n")])
    assert ran.stderr == 'warning: extension "loud": there is a flag --name\n'
    helped = started("--help")[0].stdout
    assert helped.index("--name") < helped.index("--times") < helped.index("--last")


def test_flag_after_missing_flag_is_last_and_reported_at_startup(
    flags: dict[str, Flag], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    monkeypatch.setattr(
        commands, "set_aside", lambda plugin, reason: refused.append(plugin.build_error(reason).message)
    )
    flags |= {"times": Flag("Times.", int, after="nam"), "more": Flag("More.", after="times")}
    assert started("--times", "2")[1] == [({"times": 2, "more": None}, "")]
    assert refused == [
        'package other: extension "loud", flags "times" (): there is no such flag; '
        "available: name, last, times, more"
    ]
