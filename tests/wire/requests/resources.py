"""REST: health, metadata, repository, documentation, models' own routes, metrics, and paths that are not there."""

import gzip

from ..http import get, one, post
from .tensors import V2, numbers, text

INDEX = "/v2/repository/index"
MODELS = "/v2/repository/models"
DOCUMENTED = ("/docs", "/v2/docs", f"{V2}/declared/docs", f"{V2}/versions/versions/2/docs")

VITALS = [
    get("root", "/"),
    get("live", "/v2/health/live"),
    get("ready", "/v2/health/ready"),
    get("server", "/v2"),
    get("server with slash", "/v2/"),
    get("model", f"{V2}/echo"),
    get("model declared", f"{V2}/declared"),
    get("model typed", f"{V2}/typed"),
    get("model versioned", f"{V2}/versions"),
    get("model of a version", f"{V2}/versions/versions/2"),
    get("model with slash", f"{V2}/names/with%20space%20%C3%BC"),
    get("model ready", f"{V2}/echo/ready"),
    get("model of a version ready", f"{V2}/versions/versions/10/ready"),
    get("model with slash ready", f"{V2}/names/with%20space%20%C3%BC/ready"),
    get("unknown model", f"{V2}/nobody"),
    get("unknown model ready", f"{V2}/nobody/ready"),
    get("unknown version", f"{V2}/versions/versions/3"),
    get("unknown version ready", f"{V2}/versions/versions/3/ready"),
    get("empty model", f"{V2}/"),
    get("models", f"{V2}"),
    get("unknown action", f"{V2}/echo/explain"),
    get("statistics of an unknown model", f"{V2}/nobody/stats"),
    get("statistics of an unknown version", f"{V2}/versions/versions/3/stats"),
    post("posted statistics", f"{V2}/stats"),
    get("configuration", f"{V2}/echo/config"),
    get("trace settings", "/v2/trace/setting"),
    post("trace settings of a model", f"{V2}/echo/trace/setting", {}),
    get("log settings", "/v2/logging"),
    get("shared memory", "/v2/systemsharedmemory/status"),
    post("shared memory of CUDA", "/v2/cudasharedmemory/region/r/register", {}),
    post("posted model", f"{V2}/echo", numbers()),
    post("posted unknown action", f"{V2}/echo/explain", numbers()),
    post("posted health", "/v2/health/live"),
    one("HEAD of health", "HEAD", "/v2/health/live", headers={"Connection": "close"}),
    one("HEAD of a model", "HEAD", f"{V2}/echo", headers={"Connection": "close"}),
    one("OPTIONS of health", "OPTIONS", "/v2/health/live"),
    one("DELETE of a model", "DELETE", f"{V2}/echo"),
    get("Ready with a query", "/v2/health/ready?a=b"),
]

UNKNOWN = [
    get("unknown path", "/nowhere"),
    post("posted unknown path", "/nowhere", numbers()),
    get("unknown path of v2", "/v2/nowhere"),
    get("health", "/v2/health"),
    get("v1", "/v1/models/echo"),
    get("path with two slashes", "//v2"),
    get("path escaped", "/v2%2Fhealth%2Flive"),
    one("HEAD of an unknown path", "HEAD", "/nowhere", headers={"Connection": "close"}),
    one("OPTIONS of an unknown path", "OPTIONS", "/nowhere"),
    get("stream by GET", f"{V2}/stream/stream"),
    get("stream of a version by GET", f"{V2}/versions/versions/1/stream"),
    post("stream by POST", f"{V2}/stream/stream", text()),
    one(
        "preflight without CORS",
        "OPTIONS",
        f"{V2}/echo/infer",
        headers={"Origin": "http://page", "Access-Control-Request-Method": "POST"},
    ),
]

DOCUMENTATION = [
    *(get(f"page {path}", path, show="hashed") for path in DOCUMENTED),
    get("document", "/v2/docs/dataplane.json", show="keyed"),
    get("openapi.json", "/openapi.json", show="keyed"),
    get("document of a model", f"{V2}/declared/docs/dataplane.json", show="keyed"),
    get("document of a version", f"{V2}/versions/versions/2/docs/dataplane.json", show="keyed"),
    get("document of an unknown model", f"{V2}/nobody/docs/dataplane.json"),
    get("page of an unknown model", f"{V2}/nobody/docs"),
    post("posted document", "/v2/docs"),
]

OWN = [
    get("own route", "/wire/hello/you"),
    get("own route with a query", "/wire/hello/you?times=2"),
    get("own route wrong query", "/wire/hello/you?times=many"),
    get("own route compressed", "/wire/hello/you?times=200", headers={"Accept-Encoding": "gzip"}),
    get("own route not compressed", "/wire/hello/you?times=200"),
    post("own route posted", "/wire/sum", [1, 2.5]),
    post("own route posted gzip", "/wire/sum", gzip.compress(b"[1,2]"), headers={"Content-Encoding": "gzip"}),
    post("own route wrong body", "/wire/sum", {"a": 1}),
    post("own route no JSON", "/wire/sum", b"{"),
    post("own route no body", "/wire/sum"),
    post("own route unknown encoding", "/wire/sum", b"[]", headers={"Content-Encoding": "br"}),
    post("own route too large", "/wire/sum", b" " * 100_001),
    post("own route refuses", "/wire/fail"),
    post("own route breaks", "/wire/break"),
    get("own route wrong method", "/wire/sum"),
    post("own route wrong method posted", "/wire/hello/you"),
]

REPOSITORY = [
    post("index", INDEX),
    post("index of an object", INDEX, {}),
    post("index of those ready", INDEX, {"ready": True}),
    post("index of those not ready", INDEX, {"ready": False}),
    post("index ready no boolean", INDEX, {"ready": 1}),
    post("index no object", INDEX, []),
    post("index no JSON", INDEX, b"{"),
    get("index by GET", INDEX),
    post("load a new model", f"{MODELS}/spare/load"),
    post("load it again", f"{MODELS}/spare/load", {}),
    post("infer with it", f"{V2}/spare/infer", numbers()),
    post("unload it", f"{MODELS}/spare/unload"),
    post("infer without it", f"{V2}/spare/infer", numbers()),
    get("unloaded model", f"{V2}/spare"),
    get("unloaded model ready", f"{V2}/spare/ready"),
    post("unload it again", f"{MODELS}/spare/unload"),
    post("unload with parameters", f"{MODELS}/spare/unload", {"parameters": {"unload_dependents": True}}),
    post("load with parameters", f"{MODELS}/spare/load", {"parameters": {"config": "{}"}}),
    post("load no JSON", f"{MODELS}/spare/load", b"{"),
    post("load unknown", f"{MODELS}/nobody/load"),
    post("unload unknown", f"{MODELS}/nobody/unload"),
    post("load broken", f"{MODELS}/broken/load"),
    get("broken model", f"{V2}/broken"),
    get("broken model ready", f"{V2}/broken/ready"),
    post("infer with broken", f"{V2}/broken/infer", numbers()),
    post("stream with broken", f"{V2}/broken/infer_stream", numbers()),
    get("ready with broken", "/v2/health/ready"),
    post("index with broken", INDEX),
    post("unload broken", f"{MODELS}/broken/unload"),
    get("ready without broken", "/v2/health/ready"),
    post("load name with slash", f"{MODELS}/names/with%20space%20%C3%BC/load"),
    get("load by GET", f"{MODELS}/echo/load"),
    post("load from a foreign page", f"{MODELS}/echo/load", headers={"Origin": "http://evil"}),
    post("load by a foreign host", f"{MODELS}/echo/load", headers={"Host": "evil"}),
    post("load from the own page", f"{MODELS}/echo/load", headers={"Origin": "http://localhost"}),
    post("repository path", f"{MODELS}/echo/reload"),
]

CASES = [*VITALS, *UNKNOWN, *DOCUMENTATION, *OWN, *REPOSITORY]
