"""Metrics that model code defines when it is imported, which happens again for each reload and version."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ..telemetry.at_import import patch_at_import

SHAPE = ("_type", "_labelnames", "_upper_bounds", "_states", "_multiprocess_mode")
"""The attributes that must be equal for two metrics to share their values."""

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


class MetricOrigin(NamedTuple):
    """The code that defined a metric, and the namespace in which it ran."""

    file: str
    namespace: dict[str, Any]


_origins: dict[str, MetricOrigin] = {}
"""The origins by time series name."""


def join_metrics(libraries: tuple[str, ...]) -> None:
    """Allow model code to define a metric again: after a reload, in a second version, or in another model.

    A metric with the same name, type and labels shares the values of the first one. A different metric
    replaces the first one if both were defined in the same file, which was reloaded. Otherwise, and within
    one module, a duplicate remains an error. Files of `libraries` are not model code.
    """

    def wrap(module: Any) -> None:
        registry = module.REGISTRY
        if not hasattr(registry.register, "joins"):
            registry.register = _wrap_register(registry, (*libraries, PACKAGE, "<"))

    patch_at_import("prometheus_client.registry", wrap)


def _wrap_register(registry: Any, libraries: tuple[str, ...]) -> Any:
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
    """Return the innermost model code on the stack, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(libraries):
        frame = frame.f_back
    return None if frame is None else MetricOrigin(frame.f_code.co_filename, frame.f_globals)
