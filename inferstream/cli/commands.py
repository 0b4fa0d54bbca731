"""The commands of `server`: its own, and those that join, each imported when it is asked for."""

from typing import Any

import typer
from typer.core import TyperGroup

from ..extensions import COMMANDS, Plugin, plugins


class Commands(TyperGroup):
    """Finds commands by name. One that cannot be used is left out, with a line on standard error."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        joined = plugins(COMMANDS)
        for name in joined.keys() & own:
            _leave_out(joined[name], "the server has a command of this name")
        return [*own, *(name for name in joined if name not in own)]

    def get_command(self, ctx: Any, name: str) -> Any:
        own = super().get_command(ctx, name)
        plugin = None if own is not None else plugins(COMMANDS).get(name)
        if plugin is None:
            return own
        try:
            return _command(name, plugin.load())
        except Exception as error:
            if plugin.ours:
                raise
            _leave_out(plugin, error)
            return None


def _command(name: str, value: Any) -> Any:
    """The command that a function with Typer's annotations is, or an application of Typer."""
    if not isinstance(value, typer.Typer):
        if not callable(value):
            raise TypeError("it is neither a function nor a Typer")
        function, value = value, typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        value.command(name)(function)
    command = typer.main.get_command(value)
    command.name = name  # an application of several commands has none, and help would not show it
    return command


def _leave_out(plugin: Plugin, reason: str | Exception) -> None:
    typer.echo(f"warning: {plugin.refusal(reason)}", err=True)
