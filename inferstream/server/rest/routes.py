"""The paths of the inference routes, and what each of them asks for."""

import re
from functools import lru_cache
from typing import NamedTuple

from ...dataplane.call import Operation

MODELS = "/v2/models/"
VERSIONS = "/versions/"

LONGEST_TARGET = 256
"""Bytes of a request target that is remembered; no client sends a longer one twice."""

_PLAIN_TARGET = re.compile(rb"/v2/models/[\w.~!$&'()*+,;=:@/-]+")


class Route(NamedTuple):
    """One inference route: what is asked, of which model."""

    operation: Operation
    either: bool
    """Whether two dialects share the route, so that the body decides."""
    model: str
    version: str | None
    template: str
    """The route as metrics name it."""


_ACTIONS = {
    "infer": (Operation.INFER, False),
    "generate": (Operation.INFER, True),
    "infer_stream": (Operation.STREAM, False),
    "generate_stream": (Operation.STREAM, True),
}
_PLAIN = {action: f"{MODELS}{{model_name}}/{action}" for action in _ACTIONS}
_VERSIONED = {action: f"{MODELS}{{model_name}}{VERSIONS}{{model_version}}/{action}" for action in _ACTIONS}


def route_of(path: str) -> Route | None:
    """The inference route of a decoded path; None for every other path."""
    target, _, action = path.rpartition("/")
    if action not in _ACTIONS or not target.startswith(MODELS):
        return None
    name, versioned, version = target[len(MODELS) :].rpartition(VERSIONS)
    if not versioned:
        name, version = version, ""
    template = _VERSIONED[action] if versioned else _PLAIN[action]
    return Route(*_ACTIONS[action], name, version or None, template)


def route_of_target(target: bytes) -> Route | None:
    """The inference route of a target as it was sent; None for one that has to be decoded first."""
    return _remembered(target) if len(target) <= LONGEST_TARGET else None


@lru_cache(1024)
def _remembered(target: bytes) -> Route | None:
    return route_of(target.decode("ascii")) if _PLAIN_TARGET.fullmatch(target) else None
