"""Route lookup among the paths that the dialects claim."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...dataplane.access import Action
from ...dataplane.call import Operation
from ...errors import HINT, InvalidSettings
from ...handlers import CustomHandler
from ..connections import strip_slashes
from .dialects.base import HttpDialect, InferenceDialect, ReadClaim, ReadRoute, Route

POST = "POST"

MAX_TARGET_LENGTH = 256
"""Maximum bytes of a cached request target. Longer targets are rarely repeated."""

_PLAIN_TARGET = re.compile(rb"/[\w.~!$&'()*+,;=:@/-]*")
PLACEHOLDER = re.compile(r"\{(\w+)\}")
MODEL_NAME = "{model_name}"
"""The only placeholder of an inference path."""


Claim = Operation | ReadClaim
"""The operation or read that a dialect serves at a path."""


class _Claimed(NamedTuple):
    """A claimed path, split for matching at its placeholder."""

    before: str
    behind: str
    versioned: str | None
    """The path with a version, or None if the path cannot have one."""
    path: str
    dialect: HttpDialect
    claim: Claim

    def build_route(self, name: str = "") -> Route | ReadRoute:
        model, version = (
            _split_version(name, self.dialect.version_mark) if self.versioned is not None else ("", None)
        )
        path = self.path if version is None or self.versioned is None else self.versioned
        if isinstance(self.claim, ReadClaim):
            return ReadRoute(path, self.claim, self.dialect, model, version, "" if model else name)
        assert isinstance(self.dialect, InferenceDialect)
        streams = self.claim is Operation.STREAM and not self.dialect.body_decides
        action = Action.STREAM if streams else Action.INFER
        return Route(self.dialect, self.claim, model, version, path, action)


class Routes:
    """The routes of all dialects. Raises InvalidSettings if two dialects claim the same path."""

    def __init__(
        self,
        dialects: Sequence[HttpDialect],
        custom_routes: Callable[[], Sequence[tuple[CustomHandler, str]]] = tuple,
    ) -> None:
        """Add the paths of `dialects`.

        `custom_routes` returns the custom routes of models, which take precedence over dialects that set
        `yields`.
        """
        self._custom_routes = custom_routes
        self._known: Sequence[tuple[CustomHandler, str]] = ()
        self._own: list[tuple[str, re.Pattern[str], str]] = []
        self._fixed: dict[str, Route | ReadRoute] = {}
        self._inferences: dict[str, Route] = {}
        self._open: list[_Claimed] = []
        self.claims: list[tuple[str, str]] = []
        """Method and path of each route that must not be hidden by another route.

        Paths that accept every method and paths of dialects that set `yields` are not included.
        """
        self._giving_way: set[tuple[str, str]] = set()
        self.dialects: list[HttpDialect] = []
        self._owners: dict[tuple[str, str], str] = {}
        self._remembered = lru_cache(1024)(self._find_inference_route)
        for dialect in dialects:
            self.add(dialect)
        reads = (claim for each in dialects for claim in each.reads() if claim.gives_way)
        self._giving_way = {(method, claim.path) for claim in reads for method in _methods(claim)}

    def add(self, dialect: HttpDialect) -> None:
        """Add the paths of a dialect.

        Raises InvalidSettings, without adding any, if another dialect claims one of them, or if the
        placeholder of an inference path is not the model name.
        """
        claims: list[tuple[str, Claim]] = [(strip_slashes(item.path), item) for item in dialect.reads()]
        if isinstance(dialect, InferenceDialect):
            for path in dialect.inferences:
                if wrong := PLACEHOLDER.search(path.replace(MODEL_NAME, "", 1)):
                    raise InvalidSettings(
                        f'The inference path {path} of the dialect "{dialect.name}" has the placeholder {wrong[0]}. '
                        f"It can have one placeholder, {MODEL_NAME}."
                    )
            claims += dialect.inferences.items()
        owners = dict(self._owners)
        for path, claim in claims:
            for method in _exclusive_methods(path, _methods(claim)):
                owner = owners.get((_normalize(path), method))
                if owner is not None and (method, path) not in self._giving_way:
                    raise InvalidSettings(f'The dialects "{owner}" and "{dialect.name}" both claim {path}.')
                owners[_normalize(path), method] = dialect.name
        self._owners = owners
        self.dialects.append(dialect)
        for path, claim in claims:
            if taken := self._giving_way & {
                (method, path) for method in _exclusive_methods(path, _methods(claim))
            }:
                self._giving_way -= taken
                self.claims = [each for each in self.claims if each not in taken]
            if not dialect.yields:
                self.claims += [(method, path) for method in _methods(claim)]
            claimed = _parse_claim(path, dialect, claim)
            if "{" in path:
                self._open.append(claimed)
            elif isinstance(route := claimed.build_route(), Route):
                self._inferences[path] = route
            else:
                self._fixed[path] = route
        # A name may contain slashes, so the path with the longest suffix wins.
        self._open.sort(key=lambda claimed: -len(claimed.behind))

    def find_route(self, path: str, method: str = "") -> Route | ReadRoute | None:
        """Return the route of a decoded path, or None if no dialect claims it."""
        route = self._find_claim(path, method)
        return None if route is not None and self._precedes(route, path, method) else route

    def _find_claim(self, path: str, method: str = POST) -> Route | ReadRoute | None:
        route = self._fixed.get(path)
        if route is None or method == POST:
            route = self._inferences.get(path, route)
        if route is not None:
            return route
        for claimed in self._open:
            before, behind = claimed.before, claimed.behind
            if path.endswith(behind) and path.startswith(before) and len(path) >= len(before) + len(behind):
                route = claimed.build_route(path[len(before) : len(path) - len(behind)])
                if isinstance(route, ReadRoute) or route.model:  # an empty name does not match
                    return route
        return None

    def find_owner(self, path: str) -> str | None:
        """Return the name of the dialect that hides a custom route at this path, or None."""
        route = self.find_route(path)
        return None if route is None or route.dialect.yields else route.dialect.name

    def find_inference_route(self, target: bytes) -> Route | None:
        """Return the inference route of a raw request target, or None if the target must be decoded first."""
        route = self._remembered(target) if len(target) <= MAX_TARGET_LENGTH else None
        if route is None or not route.dialect.yields:
            return route
        return None if self._precedes(route, strip_slashes(target.decode("ascii")), POST) else route

    def _precedes(self, route: Route | ReadRoute, path: str, method: str) -> bool:
        """Whether a custom route takes precedence over the route of a dialect that sets `yields`."""
        return route.dialect.yields and method in self.find_custom_models(path)

    def describe_missing(self, path: str, prefix: str = "") -> str:
        """Return the message for an unknown path.

        It suggests an inference path that differs only in its first segment. `prefix` is the part before the
        suggested path, such as the root path behind a proxy.
        """
        ended = [each for each in self._open if each.behind and not isinstance(each.claim, ReadClaim)]
        firsts = {each.split("/")[1] for each in (*self._inferences, *(each.before for each in ended))}
        near = [f"/{path.split('/', 2)[-1]}", *(f"/{first}{path}" for first in sorted(firsts, reverse=True))]
        for meant in near if 1 < len(path) <= MAX_TARGET_LENGTH else ():
            if (meant in self._inferences and meant != "/") or any(
                meant.startswith(each.before) and meant.endswith(each.behind) for each in ended
            ):
                return f"Not Found; did you mean {prefix}{meant}?"
        return f"Not Found{HINT}POST {prefix}/v2/models/NAME/infer or generate calls a model"

    def find_custom_models(self, path: str) -> dict[str, str]:
        """Map each method of the custom routes at a path to its model."""
        routes = self._custom_routes()
        if routes is not self._known:
            # Imported lazily: few models have custom routes.
            from starlette.routing import compile_path

            self._known = routes
            self._own = [
                (handler.rest_method, compile_path(strip_slashes(handler.rest_path))[0], model)
                for handler, model in routes
            ]
        models: dict[str, str] = {}
        for method, pattern, model in self._own:
            if pattern.match(path):
                models.setdefault(method, model)
        return models

    def _find_inference_route(self, target: bytes) -> Route | None:
        path = strip_slashes(target.decode("ascii", "replace"))
        route = self._find_claim(path) if _PLAIN_TARGET.fullmatch(target) else None
        return route if isinstance(route, Route) else None


def is_permanent(route: Route) -> bool:
    """Whether the route stays valid when other models are loaded."""
    return not route.dialect.yields


def _normalize(path: str) -> str:
    """Replace the name of the placeholder, so that equal paths compare equal."""
    return PLACEHOLDER.sub("{}", path)


def _methods(claim: Claim) -> Sequence[str]:
    return (claim.methods or ()) if isinstance(claim, ReadClaim) else (POST,)


def _exclusive_methods(path: str, methods: Sequence[str]) -> Sequence[str]:
    """Return the methods of a claim that no other dialect may claim.

    A path with a placeholder has one owner.
    """
    return (POST,) if "{" in path else methods or ("GET", POST)


def _parse_claim(path: str, dialect: HttpDialect, claim: Claim) -> _Claimed:
    placeholder = PLACEHOLDER.search(path)
    if placeholder is None:
        return _Claimed(path, "", None, path, dialect, claim)
    before, behind, name = path[: placeholder.start()], path[placeholder.end() :], placeholder[1]
    versioned = None
    if name.endswith("name"):
        mark = dialect.version_mark
        versioned = f"{before}{{{name}}}{mark}{{{name.removesuffix('name')}version}}{behind}"
    return _Claimed(before, behind, versioned, path, dialect, claim)


def _split_version(name: str, mark: str) -> tuple[str, str | None]:
    """Split a name and a version at the last `mark`. The version cannot contain a slash."""
    before, separator, version = name.rpartition(mark)
    return (before, version) if separator and version and "/" not in version else (name, None)
