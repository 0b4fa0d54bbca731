"""Restricts replay to inference requests on paths of the destination server."""

import re
from collections.abc import Callable
from urllib.parse import unquote

from inferstream import Settings
from inferstream.ext.calls import Action
from inferstream.ext.http import build_action_finder
from inferstream.ext.rpc import TYPED_PREFIX

from .records import Recorded

INFERENCES = (Action.INFER, Action.STREAM)

INFERENCE_RPCS = ("ModelInfer", "ModelStreamInfer", TYPED_PREFIX)

_PLAIN = re.compile(r"/(?!/)[!-\"$-\[\]-~]*")
"""A path that starts with exactly one slash, in printable ASCII without backslashes or fragments."""
_RPC = re.compile(r"/[\w.]+/(\w+)")


def build_target_check() -> Callable[[Recorded], str]:
    """Build a function that returns the reason why a recording must not be sent, or an empty string."""
    find_action = build_action_finder(Settings())

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
        action = find_action(path, method) if method in ("GET", "POST") else None
        return "" if action in INFERENCES else "its target is not an inference"

    return refuse
