"""Finds what a path asks for, among the paths that the dialects claim."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...dataplane.access import Action
from ...dataplane.call import Operation
from ...errors import InvalidSettings
from ...handlers import CustomHandler
from ..connections import without_slash
from .dialects.base import HttpDialect, InferenceDialect, ReadClaim, ReadRoute, Route

POST = "POST"

LONGEST_TARGET = 256
"""Bytes of a request target that is remembered; no client sends a longer one twice."""

_PLAIN_TARGET = re.compile(rb"/[\w.~!$&'()*+,;=:@/-]*")
PLACEHOLDER = re.compile(r"\{(\w+)\}")

Claim = Operation | ReadClaim
"""What a dialect does at a path."""


class _Claimed(NamedTuple):
    """A path that a dialect claims, as it is compared: what stands before the placeholder, and what behind it."""

    before: str
    behind: str
    versioned: str | None
    """The path with a version; None where there can be none."""
    path: str
    dialect: HttpDialect
    claim: Claim

    def route(self, name: str = "") -> Route | ReadRoute:
        model, version = _split(name, self.dialect.version_mark) if self.versioned is not None else ("", None)
        path = self.path if version is None or self.versioned is None else self.versioned
        if isinstance(self.claim, ReadClaim):
            return ReadRoute(path, self.claim, self.dialect, model, version, "" if model else name)
        assert isinstance(self.dialect, InferenceDialect)
        streams = self.claim is Operation.STREAM and not self.dialect.body_decides
        action = Action.STREAM if streams else Action.INFER
        return Route(self.dialect, self.claim, model, version, path, action)


class Routes:
    """All paths of these dialects. Raises InvalidSettings where two of them claim the same."""

    def __init__(
        self,
        dialects: Sequence[HttpDialect],
        custom_routes: Callable[[], Sequence[tuple[CustomHandler, str]]] = tuple,
    ) -> None:
        """`custom_routes` returns the routes of models' own, which precede dialects that yield."""
        self._custom_routes = custom_routes
        self._known: Sequence[tuple[CustomHandler, str]] = ()
        self._own: list[tuple[str, re.Pattern[str], str]] = []
        self._fixed: dict[str, Route | ReadRoute] = {}
        self._inferences: dict[str, Route] = {}
        self._open: list[_Claimed] = []
        self.claims: list[tuple[str, str]] = []
        """Method and path of each route that nothing else may hide.

        A path that every method may ask for is not among them, nor are those of dialects that yield.
        """
        self._giving_way: set[tuple[str, str]] = set()
        self.dialects: list[HttpDialect] = []
        self._owners: dict[tuple[str, str], str] = {}
        self._remembered = lru_cache(1024)(self._of_target)
        for dialect in dialects:
            self.add(dialect)
        reads = (claim for each in dialects for claim in each.reads() if claim.gives_way)
        self._giving_way = {(method, claim.path) for claim in reads for method in _methods(claim)}

    def add(self, dialect: HttpDialect) -> None:
        """Add the paths of a dialect. Raises InvalidSettings, and adds none, where another claims one of them."""
        claims: list[tuple[str, Claim]] = [(without_slash(item.path), item) for item in dialect.reads()]
        if isinstance(dialect, InferenceDialect):
            claims += dialect.inferences.items()
        owners = dict(self._owners)
        for path, claim in claims:
            for method in _owned(path, _methods(claim)):
                owner = owners.get((_key(path), method))
                if owner is not None and (method, path) not in self._giving_way:
                    raise InvalidSettings(f'The dialects "{owner}" and "{dialect.name}" both claim {path}.')
                owners[_key(path), method] = dialect.name
        self._owners = owners
        self.dialects.append(dialect)
        for path, claim in claims:
            if taken := self._giving_way & {(method, path) for method in _owned(path, _methods(claim))}:
                self._giving_way -= taken
                self.claims = [each for each in self.claims if each not in taken]
            if not dialect.yields:
                self.claims += [(method, path) for method in _methods(claim)]
            claimed = _claimed(path, dialect, claim)
            if "{" in path:
                self._open.append(claimed)
            elif isinstance(route := claimed.route(), Route):
                self._inferences[path] = route
            else:
                self._fixed[path] = route
        # A name may hold slashes: the path with the longest end is meant.
        self._open.sort(key=lambda claimed: -len(claimed.behind))

    def of_path(self, path: str, method: str = "") -> Route | ReadRoute | None:
        """What a decoded path asks for; None for a path that no dialect claims."""
        route = self._claimed_by(path, method)
        return None if route is not None and self._precedes(route, path, method) else route

    def _claimed_by(self, path: str, method: str = POST) -> Route | ReadRoute | None:
        route = self._fixed.get(path)
        if route is None or method == POST:
            route = self._inferences.get(path, route)
        if route is not None:
            return route
        for claimed in self._open:
            before, behind = claimed.before, claimed.behind
            if path.endswith(behind) and path.startswith(before) and len(path) >= len(before) + len(behind):
                route = claimed.route(path[len(before) : len(path) - len(behind)])
                if isinstance(route, ReadRoute) or route.model:  # no model without a name is asked
                    return route
        return None

    def owner_of(self, path: str) -> str | None:
        """The name of the dialect that hides a model's own route of this path, or None."""
        route = self.of_path(path)
        return None if route is None or route.dialect.yields else route.dialect.name

    def of_target(self, target: bytes) -> Route | None:
        """The inference that a target asks for as it was sent; None for one that has to be decoded first."""
        route = self._remembered(target) if len(target) <= LONGEST_TARGET else None
        if route is None or not route.dialect.yields:
            return route
        return None if self._precedes(route, without_slash(target.decode("ascii")), POST) else route

    def _precedes(self, route: Route | ReadRoute, path: str, method: str) -> bool:
        """Whether a model has a route of its own at a path of a dialect that yields."""
        return route.dialect.yields and method in self.own(path)

    def not_found(self, path: str, prefix: str = "") -> str:
        """Return the message for an unknown path. It suggests an inference path that differs only in its first segment.

        `prefix` is the part before the suggested path, such as the root path behind a proxy.
        """
        ended = [each for each in self._open if each.behind and not isinstance(each.claim, ReadClaim)]
        firsts = {each.split("/")[1] for each in (*self._inferences, *(each.before for each in ended))}
        near = [f"/{path.split('/', 2)[-1]}", *(f"/{first}{path}" for first in sorted(firsts, reverse=True))]
        for meant in near if 1 < len(path) <= LONGEST_TARGET else ():
            if (meant in self._inferences and meant != "/") or any(
                meant.startswith(each.before) and meant.endswith(each.behind) for each in ended
            ):
                return f"Not Found; did you mean {prefix}{meant}?"
        return "Not Found"

    def own(self, path: str) -> dict[str, str]:
        """The models that have a route of their own at a path, by its method."""
        routes = self._custom_routes()
        if routes is not self._known:
            from starlette.routing import compile_path  # late: only models with routes of their own need it

            self._known = routes
            self._own = [
                (handler.rest_method, compile_path(without_slash(handler.rest_path))[0], model)
                for handler, model in routes
            ]
        models: dict[str, str] = {}
        for method, pattern, model in self._own:
            if pattern.match(path):
                models.setdefault(method, model)
        return models

    def _of_target(self, target: bytes) -> Route | None:
        path = without_slash(target.decode("ascii", "replace"))
        route = self._claimed_by(path) if _PLAIN_TARGET.fullmatch(target) else None
        return route if isinstance(route, Route) else None


def is_fixed(route: Route) -> bool:
    """Whether no model that is loaded later can have the path."""
    return not route.dialect.yields


def _key(path: str) -> str:
    """A path, whatever its placeholder is called."""
    return PLACEHOLDER.sub("{}", path)


def _methods(claim: Claim) -> Sequence[str]:
    return (claim.methods or ()) if isinstance(claim, ReadClaim) else (POST,)


def _owned(path: str, methods: Sequence[str]) -> Sequence[str]:
    """The methods of a claim that nobody else may claim. A path with a placeholder has one owner."""
    return (POST,) if "{" in path else methods or ("GET", POST)


def _claimed(path: str, dialect: HttpDialect, claim: Claim) -> _Claimed:
    placeholder = PLACEHOLDER.search(path)
    if placeholder is None:
        return _Claimed(path, "", None, path, dialect, claim)
    before, behind, name = path[: placeholder.start()], path[placeholder.end() :], placeholder[1]
    versioned = None
    if name.endswith("name"):
        mark = dialect.version_mark
        versioned = f"{before}{{{name}}}{mark}{{{name.removesuffix('name')}version}}{behind}"
    return _Claimed(before, behind, versioned, path, dialect, claim)


def _split(name: str, mark: str) -> tuple[str, str | None]:
    """A name and a version. What looks like a version is one where nothing follows it."""
    before, separator, version = name.rpartition(mark)
    return (before, version) if separator and version and "/" not in version else (name, None)
