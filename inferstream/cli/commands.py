"""The commands of `server`: its own, and those that join, each imported when it is asked for."""

from collections.abc import Mapping
from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..extensions import COMMANDS, Plugin, extensions, plugins

if TYPE_CHECKING:
    from ..ext import Flag


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


class StartCommand(TyperCommand):
    """A command with the flags of plug-ins among its own. Their values, by name, are the object of its context."""

    @cached_property
    def _joined(self) -> dict[str, "Flag"]:
        """The flags of plug-ins, by name."""
        taken = {parameter.name for parameter in self.params}
        joined: dict[str, Flag] = {}
        for extension in extensions().values():
            for name, flag in extension.flags.items():
                if _parameter(name) in taken:
                    typer.echo(f'warning: extension "{extension.name}": there is a flag --{name}', err=True)
                else:
                    taken.add(_parameter(name))
                    joined[name] = flag
        return joined

    @cached_property
    def _options(self) -> list[Any]:
        options = _build_options(self._joined)
        after = [_parameter(flag.after) for flag in self._joined.values()]
        arranged = [*self.params]
        for option, place in zip(options, after, strict=True):
            names = [parameter.name for parameter in arranged]
            arranged.insert(names.index(place) + 1 if place in names else len(arranged), option)
        return arranged

    def get_params(self, ctx: Any) -> list[Any]:
        return [*self._options, *super().get_params(ctx)[len(self.params) :]]

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = {name: ctx.params.pop(name) for name in map(_parameter, self._joined)}
        return super().invoke(ctx)


def _parameter(flag: str) -> str:
    """The name of a flag in Python."""
    return flag.replace("-", "_")


def _build_options(flags: Mapping[str, "Flag"]) -> list[Any]:
    """What Typer makes of the parameters of a function."""
    types = {
        _parameter(name): Annotated[flag.kind | None, typer.Option(f"--{name}", help=flag.help)]
        for name, flag in flags.items()
    }

    def take(**values: Any) -> None: ...

    take.__annotations__ = types
    keywords = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in types.items()
    ]
    vars(take)["__signature__"] = Signature(keywords)
    application = typer.Typer(add_completion=False)
    application.command()(take)
    return [*typer.main.get_command(application).params]


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
