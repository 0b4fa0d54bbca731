"""The edges of a server, from the inside out: those of the core, and those of plug-ins at their places."""

from collections.abc import Callable

from .. import extensions
from ..dataplane.server_parts import ServerParts
from ..telemetry.context import trace_by
from .edge import Edge
from .grpc.identified import IdentifiedRpcs

EDGES: dict[str, Callable[[ServerParts], Edge | None]] = {
    "request_ids": IdentifiedRpcs.of,  # those of HTTP are in `rest.app` and `rest.inference`
}


def build_edges(parts: ServerParts) -> list[Edge]:
    """The edges that the settings turn on. Raises InvalidSettings, in strict mode for those of other packages too."""
    strict = parts.settings.strict
    edges: list[Edge] = []
    for plugin, make in extensions.arrange(EDGES, extensions.loaded(extensions.EDGES, strict)):
        try:
            edge = make(parts)
        except Exception as error:
            if plugin is None:
                raise
            extensions.leave_out(plugin, error, strict)
            continue
        if isinstance(edge, Edge):
            edges.append(edge)
            if edge.current_span is not None:
                trace_by(edge.current_span)
        elif plugin is not None and edge is not None:
            extensions.leave_out(plugin, f"it returned a {type(edge).__name__}, not an Edge", strict)
    return edges
