"""The edges of a server, ordered from the innermost to the outermost. Plug-ins choose their position."""

from collections.abc import Callable

from ..dataplane.server_parts import ServerParts
from ..extensions import entries, loading
from ..telemetry.context import set_span_source
from .edge import Edge
from .grpc.rpc_ids import IdentifiedRpcs

EDGES: dict[str, Callable[[ServerParts], Edge | None]] = {
    "request_ids": IdentifiedRpcs.of,  # the HTTP counterparts are in `rest.app` and `rest.inference`
}


def build_edges(parts: ServerParts) -> list[Edge]:
    """Build the edges that the settings enable.

    Raises InvalidSettings if a built-in edge or, in strict mode, a plug-in edge cannot be built. Otherwise,
    the plug-in edge is skipped.
    """
    strict = parts.settings.strict
    edges: list[Edge] = []
    for plugin, make in entries.arrange(EDGES, loading.load_placed_group(entries.EDGES, EDGES, strict)):
        try:
            edge = make(parts)
        except Exception as error:
            if plugin is None:
                raise
            loading.leave_out(plugin, error, strict)
            continue
        if isinstance(edge, Edge):
            edges.append(edge)
            if edge.current_span is not None:
                set_span_source(edge.current_span)
        elif plugin is not None and edge is not None:
            loading.leave_out(plugin, f"it returned a {type(edge).__name__}, not an Edge", strict)
    return edges
