"""Finds what a path asks for, among the paths that the dialects claim."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...dataplane.call import Operation
from ...errors import InvalidSettings
from ...handlers import CustomHandler
from .dialects.base import HttpDialect, InferenceDialect, ReadClaim, ReadRoute, Route

VERSIONS = "/versions/"
POST = "POST"

LONGEST_TARGET = 256
"""Bytes of a request target that is remembered; no client sends a longer one twice."""

ELSEWHERE = ("/v2/models/{name}/docs", "/v2/models/{name}/docs/dataplane.json", "/v2/models/{name}/stream")
"""Paths of models that FastAPI serves."""

_PLAIN_TARGET = re.compile(rb"/[\w.~!$&'()*+,;=:@/-]*")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class _Claimed(NamedTuple):
    """A path that a dialect claims, as it is compared: what stands before the placeholder, and what behind it."""

    before: str
    behind: str
    versioned: str | None
    """The path with a version; None where there can be none."""
    path: str
    dialect: HttpDialect | None
    """None for a path that FastAPI serves."""
    claim: Operation | ReadClaim | None

    def route(self, name: str = "") -> Route | ReadRoute | None:
        model, version = _split(name) if self.versioned is not None else ("", None)
        path = self.path if version is None or self.versioned is None else self.versioned
        if isinstance(self.claim, ReadClaim):
            assert self.dialect is not None
            return ReadRoute(path, self.claim, self.dialect, model, version)
        if self.claim is None:
            return None
        assert isinstance(self.dialect, InferenceDialect)
        return Route(self.dialect, self.claim, model, version, path)


class Routes:
    """All paths of these dialects. Raises InvalidSettings where two of them claim the same."""

    def __init__(
        self,
        dialects: Sequence[HttpDialect],
        custom_routes: Callable[[], Sequence[tuple[CustomHandler, str]]] = tuple,
    ) -> None:
        """`custom_routes` returns the routes of models' own, which precede dialects that yield."""
        self._custom_routes = custom_routes
        self._fixed: dict[str, Route | ReadRoute | None] = {}
        self._inferences: dict[str, Route] = {}
        self._open: list[_Claimed] = [_claimed(path, None, None) for path in ELSEWHERE]
        owners = {(_key(path), POST): "fastapi" for path in ELSEWHERE}
        for dialect in dialects:
            claims: list[tuple[str, Operation | ReadClaim]] = [(item.path, item) for item in dialect.reads()]
            if isinstance(dialect, InferenceDialect):
                claims += dialect.inferences.items()
            for path, claim in claims:
                for method in _methods(path, claim):
                    if (owner := owners.get((_key(path), method))) is not None:
                        raise InvalidSettings(
                            f'The dialects "{owner}" and "{dialect.name}" both claim {path}.'
                        )
                    owners[_key(path), method] = dialect.name
                claimed = _claimed(path, dialect, claim)
                if "{" in path:
                    self._open.append(claimed)
                elif isinstance(route := claimed.route(), Route):
                    self._inferences[path] = route
                else:
                    self._fixed[path] = route
        # A name may hold slashes: the path with the longest end is meant.
        self._open.sort(key=lambda claimed: -len(claimed.behind))
        self._remembered = lru_cache(1024)(self._of_target)

    def of_path(self, path: str, method: str = "") -> Route | ReadRoute | None:
        """What a decoded path asks for; None for a path that no dialect claims."""
        found = self._claimed_by(path, method)
        return None if isinstance(found, Route) and self._precedes(found) else found

    def _claimed_by(self, path: str, method: str = POST) -> Route | ReadRoute | None:
        found = self._fixed.get(path)
        if found is None or method == POST:
            found = self._inferences.get(path, found)
        if found is not None:
            return found
        for claimed in self._open:
            before, behind = claimed.before, claimed.behind
            if path.endswith(behind) and path.startswith(before) and len(path) >= len(before) + len(behind):
                return claimed.route(path[len(before) : len(path) - len(behind)])
        return None

    def of_target(self, target: bytes) -> Route | None:
        """The inference that a target asks for as it was sent; None for one that has to be decoded first."""
        found = self._remembered(target) if len(target) <= LONGEST_TARGET else None
        return None if found is not None and self._precedes(found) else found

    def _precedes(self, route: Route) -> bool:
        """Whether a model has a route of its own at the path of a dialect that yields."""
        return route.dialect.yields and any(
            handler.rest_path == route.template for handler, _ in self._custom_routes()
        )

    def _of_target(self, target: bytes) -> Route | None:
        found = self._claimed_by(target.decode("ascii")) if _PLAIN_TARGET.fullmatch(target) else None
        return found if isinstance(found, Route) else None


def _key(path: str) -> str:
    """A path, whatever its placeholder is called."""
    return _PLACEHOLDER.sub("{}", path)


def _methods(path: str, claim: Operation | ReadClaim) -> Sequence[str]:
    """The methods of a claim. A path with a placeholder has one owner."""
    if "{" in path or isinstance(claim, Operation):
        return (POST,)
    return claim.methods or (POST, "GET")


def _claimed(path: str, dialect: HttpDialect | None, claim: Operation | ReadClaim | None) -> _Claimed:
    found = _PLACEHOLDER.search(path)
    if found is None:
        return _Claimed(path, "", None, path, dialect, claim)
    before, behind, name = path[: found.start()], path[found.end() :], found[1]
    versioned = None
    if name.endswith("name"):
        versioned = f"{before}{{{name}}}{VERSIONS}{{{name.removesuffix('name')}version}}{behind}"
    return _Claimed(before, behind, versioned, path, dialect, claim)


def _split(name: str) -> tuple[str, str | None]:
    """A name and a version. What looks like a version is one where nothing follows it."""
    before, found, version = name.rpartition(VERSIONS)
    return (before, version) if found and version and "/" not in version else (name, None)
