"""The commands of `server`, built in or added by plug-ins.

A plug-in's command is imported when it is first used.
"""

from collections.abc import Mapping
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..extensions.discovery import extensions, flags, plugins
from ..extensions.entries import COMMANDS, Plugin
from ..extensions.loading import set_aside

if TYPE_CHECKING:
    from ..ext import Flag


SERVE, BUILD, OTHER = "Serve", "Build", "Other"

PANELS = (SERVE, BUILD, "Call and inspect", "Keys")
"""The command headings that the help shows first, in this order."""

ALIASES = {"run": "start", "serve": "start"}
"""Command names that other programs use. The help does not list them."""


class Commands(TyperGroup):
    """A command group that includes plug-in commands.

    Unusable ones are skipped with a warning on standard error.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        joined = plugins(COMMANDS)
        for name in joined.keys() & own:
            _leave_out(joined[name], "the server has a command of this name")
        names = {name: getattr(self.commands[name], "rich_help_panel", "") for name in own}
        names |= {name: _panel(plugin) for name, plugin in joined.items() if name not in own}
        headings = [*PANELS, *sorted({*names.values()} - {*PANELS, OTHER}), OTHER]
        return sorted(names, key=lambda name: headings.index(names[name]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        target = args[0] if args else ""
        if self.get_command(ctx, target) is None and _is_target(target):
            ctx.fail(f"No such command {target!r}.\nhint: {ctx.command_path} start {target}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, name: str) -> Any:
        own = super().get_command(ctx, name)
        plugin = None if own is not None else plugins(COMMANDS).get(name)
        if plugin is None:
            return super().get_command(ctx, ALIASES[name]) if own is None and name in ALIASES else own
        try:
            return _command(name, plugin.load(), _panel(plugin))
        except Exception as error:
            if plugin.ours:
                raise
            _leave_out(plugin, error)
            return None


def _panel(plugin: Plugin) -> str:
    """Return the heading of a plug-in's command in the help."""
    extension = extensions().get(plugin.extension)
    return OTHER if extension is None else extension.panels.get(plugin.name, OTHER)


def _is_target(name: str) -> bool:
    """Whether a word is a target that `start` can serve, and not the name of a command."""
    return name.endswith(".py") or (
        not name.startswith("-") and (":" in name or "/" in name or Path(name).exists())
    )


class StartCommand(TyperCommand):
    """A command with additional flags from plug-ins. `ctx.obj` maps their names to their values."""

    @cached_property
    def _joined(self) -> dict[str, tuple[Plugin, "Flag"]]:
        """The flags of plug-ins, by name."""
        taken = {parameter.name for parameter in self.params}
        joined: dict[str, tuple[Plugin, Flag]] = {}
        for plugin, flag in flags():
            if _parameter(plugin.name) in taken:
                typer.echo(
                    f'warning: extension "{plugin.extension}": there is a flag --{plugin.name}', err=True
                )
            else:
                taken.add(_parameter(plugin.name))
                joined[plugin.name] = plugin, flag
        return joined

    @cached_property
    def _options(self) -> list[Any]:
        options = _build_options({name: flag for name, (_, flag) in self._joined.items()})
        arranged = [*self.params]
        named = [each for each in (*self.params, *options) if each.param_type_name == "option"]
        known = [str(each.name).replace("_", "-") for each in named]
        for option, (plugin, flag) in zip(options, self._joined.values(), strict=True):
            names = [parameter.name for parameter in arranged]
            place = _parameter(flag.after)
            arranged.insert(names.index(place) + 1 if place in names else len(arranged), option)
            if place in names:
                option.rich_help_panel = getattr(arranged[names.index(place)], "rich_help_panel", None)
            if place and place.replace("_", "-") not in known:
                set_aside(plugin, f"there is no such flag; available: {', '.join(known)}")
        return arranged

    def get_params(self, ctx: Any) -> list[Any]:
        return [*self._options, *super().get_params(ctx)[len(self.params) :]]

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = {name: ctx.params.pop(name) for name in map(_parameter, self._joined)}
        return super().invoke(ctx)


def _parameter(flag: str) -> str:
    """Return the Python name of a flag."""
    return flag.replace("-", "_")


def _build_options(flags: Mapping[str, "Flag"]) -> list[Any]:
    """Let Typer build the options for these flags."""
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


def _command(name: str, value: Any, panel: str) -> Any:
    """Build a command from a function with Typer annotations, or from a Typer application."""
    if not isinstance(value, typer.Typer):
        if not callable(value):
            raise TypeError("it is neither a function nor a Typer")
        function, value = value, typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        value.command(name)(function)
    command = typer.main.get_command(value)
    command.name = name  # a Typer application with several commands has no name, and help would not show it
    setattr(command, "rich_help_panel", panel)  # noqa: B010  # Typer's classes have it, those of Click do not
    return command


def _leave_out(plugin: Plugin, reason: str | Exception) -> None:
    typer.echo(f"warning: {plugin.build_error(reason)}", err=True)
