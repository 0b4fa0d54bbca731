"""The commands of `server`: its own, and those that join, each imported when it is asked for."""

from typing import Any

import typer
from typer.core import TyperGroup

from ..errors import InvalidSettings
from ..plugins import COMMANDS, Plugin, plugins


class Commands(TyperGroup):
    """Finds commands by name. One that cannot be used is left out, with a line on standard error."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        for plugin in plugins(COMMANDS).values():
            if plugin.name in own:
                _leave_out(plugin.refusal("the server has a command of this name"))
        return [*own, *(name for name in plugins(COMMANDS) if name not in own)]

    def get_command(self, ctx: Any, name: str) -> Any:
        own = super().get_command(ctx, name)
        plugin = None if own is not None else plugins(COMMANDS).get(name)
        if plugin is None:
            return own
        try:
            return _command(plugin)
        except InvalidSettings as error:
            _leave_out(error)
            return None


def _command(plugin: Plugin) -> Any:
    """The command that a function with Typer's annotations is, or an application of Typer."""
    value = plugin.load()
    if not isinstance(value, typer.Typer):
        if not callable(value):
            raise plugin.refusal("it is neither a function nor a Typer")
        function, value = value, typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        value.command(plugin.name)(function)
    return typer.main.get_command(value)


def _leave_out(refusal: InvalidSettings) -> None:
    typer.echo(f"warning: {refusal.message}", err=True)
