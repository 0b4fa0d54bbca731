"""Metrics that model code makes while it is imported, which happens again at each load and for each version."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ..telemetry.at_import import at_import

SHAPE = ("_type", "_labelnames", "_upper_bounds", "_states", "_multiprocess_mode")
"""Attributes in which two metrics must be equal to share their values."""

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


class MetricOrigin(NamedTuple):
    """The code that has made a metric, and the namespace in which it ran."""

    file: str
    namespace: dict[str, Any]


_origins: dict[str, MetricOrigin] = {}
"""By the names of the time series."""


def join_metrics(libraries: tuple[str, ...]) -> None:
    """Let model code make a metric again: at a reload, in a second version, or in another model.

    A metric of the same name, type and labels shares the values of the first. A metric that differs replaces the first
    if both are from one file, which was reloaded. Otherwise, and within one module, it stays an error. The files of
    `libraries` are not model code.
    """

    def wrap(module: Any) -> None:
        registry = module.REGISTRY
        if not hasattr(registry.register, "joins"):
            registry.register = _joining(registry, (*libraries, PACKAGE, "<"))

    at_import("prometheus_client.registry", wrap)


def _joining(registry: Any, libraries: tuple[str, ...]) -> Any:
    register = registry.register

    def register_or_join(collector: Any) -> None:
        origin = _origin(libraries)
        names = registry._get_names(collector)
        taken = next((name for name in names if name in registry._names_to_collectors), "")
        known = _origins.get(taken)
        if origin is None or known is None or known.namespace is origin.namespace:
            register(collector)
        else:
            first = registry._names_to_collectors[taken]
            if (
                type(first) is type(collector)
                and hasattr(first, "_labelnames")
                and _shape(first) == _shape(collector)
            ):
                vars(collector).update(vars(first))
            elif known.file == origin.file:
                registry.unregister(first)
                register(collector)
            else:
                raise ValueError(f"{origin.file} and {known.file} make different metrics of the name {taken}")
        if origin is not None:
            _origins.update(dict.fromkeys(names, origin))

    register_or_join.joins = True  # type: ignore[attr-defined]
    return register_or_join


def _shape(metric: Any) -> list[Any]:
    return [getattr(metric, name, None) for name in SHAPE]


def _origin(libraries: tuple[str, ...]) -> MetricOrigin | None:
    """The innermost model code on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(libraries):
        frame = frame.f_back
    return None if frame is None else MetricOrigin(frame.f_code.co_filename, frame.f_globals)
