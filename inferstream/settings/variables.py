"""Detection of environment variables with known prefixes that no setting reads."""

from collections.abc import Iterator

from .environment import (
    MLSERVER_MODEL_PREFIX,
    MLSERVER_PREFIX,
    MODEL_PREFIX,
    PREFIX,
    EnvironmentModel,
    is_foreign,
    variables,
)
from .sections import Composed, Section, further_variables, reserved_names
from .suggestions import suggest

CLOSE = 0.8
"""Minimum similarity of an unknown model variable to a known one for a warning. Runtimes read other
variables."""


def unknown_variables() -> Iterator[str]:
    """Describe each variable that is probably a mistake."""
    known = {
        f"{prefix}{name}".upper()
        for settings in _subclasses(EnvironmentModel)
        if issubclass(settings, Composed) or not issubclass(settings, Section)
        for prefix in settings.env_prefixes
        for name in (*_names(settings), *further_variables(), *reserved_names(settings._group))
    }
    for name, value in sorted(variables().items()):
        prefix = _prefix(name.upper())
        if prefix is None or name.upper() in known or is_foreign(name.upper().removeprefix(prefix), value):
            continue
        alike = [each for each in known if _prefix(each) == prefix]
        of_model = prefix in (MODEL_PREFIX, MLSERVER_MODEL_PREFIX)
        ends = {each.removeprefix(prefix): each for each in alike}
        meant = suggest(name.upper().removeprefix(prefix), ends, CLOSE if of_model else 0.6)
        if meant or not of_model:
            yield f"{name} is unknown and ignored{f'; did you mean {ends[meant]}?' if meant else ''}"


def _names(settings: type[EnvironmentModel]) -> Iterator[str]:
    for name, field in settings.model_fields.items():
        yield from {name, field.alias or name}


def _prefix(name: str) -> str | None:
    prefixes = (MODEL_PREFIX, MLSERVER_MODEL_PREFIX, PREFIX, MLSERVER_PREFIX)
    return next((prefix for prefix in prefixes if name.startswith(prefix)), None)


def _subclasses(kind: type[EnvironmentModel]) -> Iterator[type[EnvironmentModel]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
