"""What the settings change of the wire: status profiles, CloudEvents, CORS, a default dialect of gRPC."""

from ..http import get, one, post
from ..rpc import Rpc
from ..websocket import Read
from . import grpc as rpc
from .tensors import V2, asking, mode, numbers, tensor, text
from .websocket import talk

FLAT = {"text": "hi"}
PAGE = {"Origin": "http://page"}
PREFLIGHT = {
    **PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type",
}

REST = [
    post("infer", f"{V2}/echo/infer", numbers()),
    post("infer without id", f"{V2}/mirror/infer", {"inputs": text()["inputs"]}),
    post("infer model headers", f"{V2}/headed/infer", text()),
    post("infer of a version", f"{V2}/versions/versions/2/infer", text()),
    post("infer_stream", f"{V2}/stream/infer_stream", text()),
    post("stream that fails", f"{V2}/stream/infer_stream", asking(fail_at=1)),
    post("stream that refuses first", f"{V2}/stream/infer_stream", asking(refuse_at=0)),
    post("generate_stream flat", f"{V2}/stream/generate_stream", FLAT),
    post("generate flat", f"{V2}/text/generate", FLAT),
    post("no JSON", f"{V2}/echo/infer", b"{"),
    post("no inputs", f"{V2}/echo/infer", {}),
    post("wrong count", f"{V2}/echo/infer", {"inputs": [tensor("x", "FP32", [1.0], [2])]}),
    post("output unknown", f"{V2}/echo/infer", {**numbers(), "outputs": [{"name": "z"}]}),
    post("input undeclared", f"{V2}/declared/infer", {"inputs": [tensor("z", "INT32", [1])]}),
    post("unknown model", f"{V2}/nobody/infer", numbers()),
    post("unknown version", f"{V2}/versions/versions/3/infer", text()),
    post("unknown encoding", f"{V2}/echo/infer", b"{}", headers={"Content-Encoding": "br"}),
    post("too large", f"{V2}/echo/infer", b" " * 100_001),
    post("model fails", f"{V2}/failing/infer", mode("value")),
    post("model refuses", f"{V2}/failing/infer", mode("model")),
    post("model only streams", f"{V2}/stream/infer", text()),
    post("model too slow", f"{V2}/impatient/infer", text()),
    post("queue full", f"{V2}/holding/infer", text())._replace(
        while_open=post("", f"{V2}/holding/infer_stream", text()).requests[0]
    ),
    post("load broken", "/v2/repository/models/broken/load"),
    post("infer with broken", f"{V2}/broken/infer", numbers()),
    get("broken model ready", f"{V2}/broken/ready"),
    get("ready with broken", "/v2/health/ready"),
    post("unload broken", "/v2/repository/models/broken/unload"),
    post("load with parameters", "/v2/repository/models/spare/load", {"parameters": {"config": "{}"}}),
    post("own route", "/wire/sum", [1, 2]),
    get("server", "/v2"),
    get("unknown path", "/nowhere"),
    get("page", "/docs", show="hashed"),
    get("document", "/openapi.json", show="keyed"),
    one("preflight", "OPTIONS", f"{V2}/echo/infer", headers=PREFLIGHT),
    one(
        "preflight of a foreign page",
        "OPTIONS",
        f"{V2}/echo/infer",
        headers={**PREFLIGHT, "Origin": "http://evil"},
    ),
    post("infer from a page", f"{V2}/echo/infer", numbers(), headers=PAGE),
    post("infer from a foreign page", f"{V2}/echo/infer", numbers(), headers={"Origin": "http://evil"}),
    post("stream from a page", f"{V2}/stream/infer_stream", text(), headers=PAGE),
    post("failure from a page", f"{V2}/echo/infer", b"{", headers=PAGE),
    get("health from a page", "/v2/health/live", headers=PAGE),
    post("load from a page", "/v2/repository/models/echo/load", headers=PAGE),
]

GRPC = [
    rpc.unary("echo", rpc.infer("echo")),
    rpc.unary("without id", rpc.infer("mirror", id="")),
    rpc.unary("model headers", rpc.infer("headed")),
    rpc.unary("wrong count", rpc.infer("echo", shape=[3])),
    rpc.unary("unknown model", rpc.infer("nobody")),
    rpc.unary("model fails", rpc.mode("value")),
    rpc.unary("model refuses", rpc.mode("model")),
    rpc.unary("model too slow", rpc.infer("impatient")),
    rpc.unary("queue full", rpc.infer("holding"), while_open=rpc.infer("holding")),
    rpc.stream("by default", rpc.infer("stream")),
    *rpc.both("items", rpc.infer("stream")),
    *rpc.both("model headers", rpc.infer("headed")),
    *rpc.both("failure after the first", rpc.infer("stream", fail_at=1)),
    *rpc.both("model too slow", rpc.infer("impatient")),
    Rpc("reflection", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", [b"\x3a\x00"]),
]

SOCKETS = [
    talk("single answer", "echo", numbers(), Read(1)),
    talk("request's headers", "mirror", text(), Read(1)),
    talk("stream", "stream", text(), Read(4)),
    talk("failure", "failing", mode("value"), Read(1)),
    talk("wrong count", "echo", {"id": "i", "inputs": [tensor("x", "FP32", [1.0], [2])]}, Read(1)),
    talk("unknown model", "nobody"),
    talk("bad time limit", "echo", headers={"X-Request-Timeout": "x"}),
    talk("from a page", "echo", numbers(), Read(1), headers=PAGE),
    talk("from a foreign page", "echo", headers={"Origin": "http://evil"}),
]

CASES = [
    *REST,
    *(case._replace(name=f"websocket: {case.name}") for case in SOCKETS),
    *(case._replace(name=f"rpc: {case.name}") for case in GRPC),
]
