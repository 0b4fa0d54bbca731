"""Decides which recorded requests are sent: inferences, to paths of the destination and nowhere else."""

import re
from collections.abc import Callable
from urllib.parse import unquote

from inferstream import Settings
from inferstream.ext.calls import Action
from inferstream.ext.http import ReadRoute
from inferstream.ext.rpc import TYPED_PREFIX
from inferstream.ext.telemetry import Meters

from ...server.rest.routing import build_routes
from .records import Recorded

INFERENCES = (Action.INFER, Action.STREAM)

INFERENCE_RPCS = ("ModelInfer", "ModelStreamInfer", TYPED_PREFIX)

_PLAIN = re.compile(r"/(?!/)[!-\"$-\[\]-~]*")
"""Exactly one slash, then printable ASCII: no host, no user, no backslash, no fragment."""
_RPC = re.compile(r"/[\w.]+/(\w+)")


def refuser() -> Callable[[Recorded], str]:
    """A function that says why a recording is not sent; empty for one that is."""
    # Routes are found without a dataplane, which only answers them.
    routes = build_routes(None, Settings(), Meters())  # type: ignore[arg-type]

    def refuse(recorded: Recorded) -> str:
        target = recorded.request.target
        if not _PLAIN.fullmatch(target):
            return "its target is not a path"
        if recorded.door == "grpc":
            rpc = _RPC.fullmatch(target)
            is_inference = rpc is not None and rpc[1].startswith(INFERENCE_RPCS)
            return "" if is_inference else "its RPC is not an inference"
        path = unquote(target.partition("?")[0])
        if not {".", ".."}.isdisjoint(re.split(r"[/\\]", path)):
            return "its target leaves its path"
        method = recorded.request.method or "GET"
        route = routes.of_path(path, method) if method in ("GET", "POST") else None
        action = route.claim.action if isinstance(route, ReadRoute) else route and route.action
        return "" if action in INFERENCES else "its target is not an inference"

    return refuse
