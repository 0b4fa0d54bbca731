"""What a path asks for, and claims that exclude each other."""

import re

import pytest

from inferstream.dataplane.access import Action
from inferstream.dataplane.call import Operation
from inferstream.errors import InvalidSettings
from inferstream.handlers import CustomHandler
from inferstream.server.rest.dialects.base import HttpDialect, ReadClaim, ReadRoute, Route
from inferstream.server.rest.dialects.v2 import V2
from inferstream.server.rest.routes import MAX_TARGET_LENGTH, Routes
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
def test_longest_suffix_determines_the_route(
    path: str, dialect: str, model: str, version: str | None
) -> None:
    found = routes().find_route(f"/v2/models/{path}")
    assert found is not None
    assert (found.dialect.name, found.model, found.version) == (dialect, model, version)


def test_route_label_omits_model_names() -> None:
    plain, versioned = map(routes().find_route, ("/v2/models/m/infer", "/v2/models/m/versions/1/generate"))
    assert isinstance(plain, Route)
    assert isinstance(versioned, Route)
    assert (plain.template, plain.operation) == ("/v2/models/{model_name}/infer", Operation.INFER)
    assert versioned.template == "/v2/models/{model_name}/versions/{model_version}/generate"


def test_only_inference_targets_are_found_directly() -> None:
    found = routes()
    assert found.find_inference_route(b"/v2/models/m/infer") == found.find_route("/v2/models/m/infer")
    for target in (b"/v2/models/m", b"/v2/models/a%20b/infer", b"/v2/models/m/infer?a=b", b"/nowhere"):
        assert found.find_inference_route(target) is None
    assert found.find_inference_route(b"/v2/models/" + b"m" * MAX_TARGET_LENGTH + b"/infer") is None


def test_inference_path_may_omit_the_model() -> None:
    class Chat(V2):
        name = "chat"
        inferences = {"/v1/chat": Operation.STREAM}

    found = Routes([Chat(None, Settings(), Meters())]).find_inference_route(b"/v1/chat")
    assert found is not None
    assert (found.operation, found.model, found.template) == (Operation.STREAM, "", "/v1/chat")


@pytest.mark.parametrize(
    ("path", "placeholder"),
    [
        ("/triage/{model}", "{model}"),
        ("/triage/{name}", "{name}"),
        ("/triage/{model_name}/to/{model_version}", "{model_version}"),
        ("/triage/{model_name}/{model_name}", "{model_name}"),
    ],
)
def test_inference_path_may_only_contain_the_model_name(path: str, placeholder: str) -> None:
    class Triage(V2):
        name = "triage"
        inferences = {path: Operation.INFER}

    line = (
        f'The inference path {path} of the dialect "triage" has the placeholder {placeholder}. '
        "It can have one placeholder, {model_name}."
    )
    with pytest.raises(InvalidSettings, match=f"^{re.escape(line)}$"):
        routes().add(Triage(None, Settings(), Meters()))


@pytest.mark.parametrize("path", ["/v2/models/{model}/infer", "/v2/health/live", "/v2/models/{it}/stream"])
def test_duplicate_claim_of_a_path_names_both_dialects(path: str) -> None:
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


def test_yielding_claim_is_replaced_once_by_a_plugin_dialect() -> None:
    found = routes(page=False)
    assert (found.find_owner("/"), found.claims.count(("GET", "/"))) == ("metadata", 1)
    found.add(Greeting())
    assert (found.find_owner("/"), found.claims.count(("GET", "/"))) == ("greeting", 1)
    with pytest.raises(InvalidSettings, match='"greeting" and "greeting" both claim /'):
        found.add(Greeting())
    assert routes().find_owner("/") == "documentation"


def test_metrics_path_conflict_prevents_startup() -> None:
    with pytest.raises(InvalidSettings, match='"metadata" and "metrics" both claim /v2'):
        routes(metrics_endpoint="/v2")
    found = routes(metrics_endpoint="/numbers").find_route("/numbers")
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
def test_path_owner_is_the_dialect_that_serves_it(path: str, owner: str | None) -> None:
    assert routes().find_owner(path) == owner


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
def test_custom_route_precedes_a_yielding_dialect(method: str, path: str, asked: str) -> None:
    own = [(CustomHandler(path, method), "model")]
    found = build_routes(None, Settings(), Meters(), lambda: own)
    other = "GET" if method == "POST" else "POST"
    assert found.find_route(asked, method) is None
    assert found.find_inference_route(asked.encode()) is None
    of_other = found.find_route(asked, other)
    own = []
    assert found.find_route(asked, method) is not None
    assert found.find_route(asked, other) == of_other


@pytest.mark.parametrize("path", ["/infer", "/generate_stream", "/versions/1/infer"])
def test_model_name_must_not_be_empty(path: str) -> None:
    assert not isinstance(routes().find_route(f"/v2/models/{path}", "POST"), Route)


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
def test_path_with_wrong_prefix_gets_a_suggestion(path: str, meant: str) -> None:
    step = f"did you mean {meant}?" if meant else "hint: POST /v2/models/NAME/infer or generate calls a model"
    assert routes().describe_missing(path) == f"Not Found; {step}"


def test_suggested_path_has_the_proxy_prefix() -> None:
    said = routes().describe_missing("/chat/completions", "/models")
    assert said == "Not Found; did you mean /models/v1/chat/completions?"
