"""Ray Serve integration: a deployment with the application in each replica. Only this plug-in imports Ray."""

from typing import TYPE_CHECKING, Any

from inferstream.ext import Extension

if TYPE_CHECKING:
    from .autoscaling import by_utilization
    from .deployment import application

__all__ = ["application", "by_utilization"]

extension = Extension("ray", requires=["kubernetes"], moved={"ray": "inferstream.plugins.ray"})


def __getattr__(name: str) -> Any:
    # Imported lazily: the server imports this module at each start.
    if name == "application":
        from .deployment import application

        return application
    if name == "by_utilization":
        from .autoscaling import by_utilization

        return by_utilization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
