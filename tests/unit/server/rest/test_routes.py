"""What a path asks for, and claims that exclude each other."""

import pytest

from inferstream.dataplane.access import Action
from inferstream.dataplane.call import Operation
from inferstream.errors import InvalidSettings
from inferstream.handlers import CustomHandler
from inferstream.server.rest.dialects.base import HttpDialect, ReadClaim, ReadRoute, Route
from inferstream.server.rest.dialects.v2 import V2
from inferstream.server.rest.routes import LONGEST_TARGET, Routes
from inferstream.server.rest.routing import build_routes
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters


def routes(**settings: str) -> Routes:
    return build_routes(None, Settings(**settings), Meters())


@pytest.mark.parametrize(
    ("path", "dialect", "model", "version"),
    [
        ("m/infer", "v2", "m", None),
        ("a/b/infer_stream", "v2", "a/b", None),
        ("m/versions/1/infer", "v2", "m", "1"),
        ("infer/infer", "v2", "infer", None),
        ("m/infer/generate", "triton", "m/infer", None),
        ("versions/versions/1/generate_stream", "triton", "versions", "1"),
        ("m", "metadata", "m", None),
        ("a/b", "metadata", "a/b", None),
        ("infer", "metadata", "infer", None),
        ("a/b/ready", "metadata", "a/b", None),
        ("m/stats", "administration", "m", None),
        ("a/b/versions/2/stats", "administration", "a/b", "2"),
        ("stats", "administration", "", None),
        ("stats/ready", "metadata", "stats", None),
        ("m/config", "administration", "m", None),
        ("a/b/trace/setting", "administration", "a/b", None),
    ],
)
def test_the_path_with_the_longest_end_is_meant(
    path: str, dialect: str, model: str, version: str | None
) -> None:
    found = routes().of_path(f"/v2/models/{path}")
    assert found is not None
    assert (found.dialect.name, found.model, found.version) == (dialect, model, version)


def test_a_route_is_named_after_its_path_without_names() -> None:
    plain, versioned = map(routes().of_path, ("/v2/models/m/infer", "/v2/models/m/versions/1/generate"))
    assert isinstance(plain, Route)
    assert isinstance(versioned, Route)
    assert (plain.template, plain.operation) == ("/v2/models/{model_name}/infer", Operation.INFER)
    assert versioned.template == "/v2/models/{model_name}/versions/{model_version}/generate"


def test_inferences_alone_are_found_by_their_targets() -> None:
    found = routes()
    assert found.of_target(b"/v2/models/m/infer") == found.of_path("/v2/models/m/infer")
    for target in (b"/v2/models/m", b"/v2/models/a%20b/infer", b"/v2/models/m/infer?a=b", b"/nowhere"):
        assert found.of_target(target) is None
    assert found.of_target(b"/v2/models/" + b"m" * LONGEST_TARGET + b"/infer") is None


def test_a_dialect_may_have_inferences_that_do_not_name_their_model() -> None:
    class Chat(V2):
        name = "chat"
        inferences = {"/v1/chat": Operation.STREAM}

    found = Routes([Chat(None, Settings(), Meters())]).of_target(b"/v1/chat")
    assert found is not None
    assert (found.operation, found.model, found.template) == (Operation.STREAM, "", "/v1/chat")


@pytest.mark.parametrize("path", ["/v2/models/{model}/infer", "/v2/health/live", "/v2/models/{it}/stream"])
def test_a_path_that_two_dialects_claim_names_both(path: str) -> None:
    class Other(HttpDialect):
        name = "other"

        def reads(self) -> list[ReadClaim]:
            return [ReadClaim(path, Action.SETTINGS, self.reads)]

    with pytest.raises(InvalidSettings, match=r'"(v2|metadata|resources)" and "other" both claim /v2/'):
        routes().add(Other(None, Settings(), Meters()))


class Greeting(HttpDialect):
    name = "greeting"

    def __init__(self) -> None: ...

    def reads(self) -> list[ReadClaim]:
        return [ReadClaim("/", Action.PAGE, None)]


def test_a_claim_gives_way_once_to_a_dialect_that_joins() -> None:
    found = routes(page=False)
    assert (found.owner_of("/"), found.claims.count(("GET", "/"))) == ("metadata", 1)
    found.add(Greeting())
    assert (found.owner_of("/"), found.claims.count(("GET", "/"))) == ("greeting", 1)
    with pytest.raises(InvalidSettings, match='"greeting" and "greeting" both claim /'):
        found.add(Greeting())
    assert routes().owner_of("/") == "documentation"


def test_metrics_at_the_path_of_another_route_stop_the_start() -> None:
    with pytest.raises(InvalidSettings, match='"metadata" and "metrics" both claim /v2'):
        routes(metrics_endpoint="/v2")
    found = routes(metrics_endpoint="/numbers").of_path("/numbers")
    assert isinstance(found, ReadRoute)


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/v2/repository/index", "resources"),
        ("/v2/repository/models/{name}/load", "resources"),
        ("/v2/repository/models/m/unload", "resources"),
        ("/v2/access", "resources"),
        ("/proto", "resources"),
        ("/proto/m", "resources"),
        ("/v2/models/m/stream", "resources"),
        ("/v2/logging", "administration"),
        ("/v2/models", "metadata"),
        ("/v2/models/{name}/explain", "metadata"),
        ("/v2/models/m/versions/1/infer", "v2"),
        ("/explain/{name}", None),
        ("/v2/other", None),
    ],
)
def test_a_path_has_the_owner_that_serves_it(path: str, owner: str | None) -> None:
    assert routes().owner_of(path) == owner


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", "/health", "/health"),
        ("GET", "/info", "/info"),
        ("POST", "/generate", "/generate"),
        ("POST", "/", "/"),
        ("GET", "/v1/models/{name}", "/v1/models/a"),
        ("POST", "/v1/models/{name}:predict", "/v1/models/a:predict"),
        ("GET", "/{rest:path}", "/v1/models"),
    ],
)
def test_a_models_own_route_precedes_a_dialect_that_yields(method: str, path: str, asked: str) -> None:
    own = [(CustomHandler(path, method), "model")]
    found = build_routes(None, Settings(), Meters(), lambda: own)
    other = "GET" if method == "POST" else "POST"
    assert found.of_path(asked, method) is None
    assert found.of_target(asked.encode()) is None
    of_other = found.of_path(asked, other)
    own = []
    assert found.of_path(asked, method) is not None
    assert found.of_path(asked, other) == of_other


@pytest.mark.parametrize("path", ["/infer", "/generate_stream", "/versions/1/infer"])
def test_no_inference_is_of_a_model_without_a_name(path: str) -> None:
    assert not isinstance(routes().of_path(f"/v2/models/{path}", "POST"), Route)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/v2/models/m/infer", "/v2/models/m/infer"),
        ("/embeddings", "/v1/embeddings"),
        ("/v1/api/generate", "/api/generate"),
        ("/favicon.ico", ""),
        ("//", ""),
        ("/", ""),
        (f"/{'x' * 300}/v1/chat/completions", ""),
    ],
)
def test_a_path_that_differs_in_its_first_part_is_named(path: str, meant: str) -> None:
    assert routes().not_found(path) == (f"Not Found; did you mean {meant}?" if meant else "Not Found")


def test_the_suggested_path_has_the_prefix_of_the_proxy() -> None:
    said = routes().not_found("/chat/completions", "/models")
    assert said == "Not Found; did you mean /models/v1/chat/completions?"
