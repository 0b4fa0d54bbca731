"""Finds environment variables with our prefixes, or MLServer's, that no setting reads."""

import difflib
import re
from collections.abc import Iterator

from .environment import (
    MLSERVER_MODEL_PREFIX,
    MLSERVER_PREFIX,
    MODEL_PREFIX,
    PREFIX,
    EnvironmentModel,
    variables,
)
from .sections import Composed, Section, further_variables, reserved

OTHERS = re.compile(
    r"INFER_.*"  # `server infer`
    r"|PATH|MODELS_DIR|ENV_TARBALL"  # images of MLServer
    r"|(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_.*)?)"  # Kubernetes, of a service
)
"""Variables, without their prefix, that others set or read."""

CLOSE = 0.8
"""How alike the name of a model's variable must be to a known one. Runtimes read variables of their own."""


def unknown_variables() -> Iterator[str]:
    """A sentence for each variable that is probably a mistake."""
    known = {
        f"{prefix}{name}".upper()
        for settings in _subclasses(EnvironmentModel)
        if issubclass(settings, Composed) or not issubclass(settings, Section)
        for prefix in settings.env_prefixes
        for name in (*settings.model_fields, *further_variables(), *reserved(settings._group))
    }
    for name in sorted(variables()):
        prefix = _prefix(name.upper())
        if prefix is None or name.upper() in known or OTHERS.fullmatch(name.upper().removeprefix(prefix)):
            continue
        alike = [each for each in known if _prefix(each) == prefix]
        of_model = prefix in (MODEL_PREFIX, MLSERVER_MODEL_PREFIX)
        ends = {each.removeprefix(prefix): each for each in alike}
        close = difflib.get_close_matches(
            name.upper().removeprefix(prefix), ends, n=1, cutoff=CLOSE if of_model else 0.6
        )
        if close or not of_model:
            hint = f"; did you mean {ends[close[0]]}?" if close else ""
            yield f"{name} is unknown and ignored{hint}"


def _prefix(name: str) -> str | None:
    prefixes = (MODEL_PREFIX, MLSERVER_MODEL_PREFIX, PREFIX, MLSERVER_PREFIX)
    return next((prefix for prefix in prefixes if name.startswith(prefix)), None)


def _subclasses(kind: type[EnvironmentModel]) -> Iterator[type[EnvironmentModel]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
