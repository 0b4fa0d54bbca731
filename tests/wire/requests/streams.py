"""REST: server-sent events, in the dialects of V2 and of Triton's generate."""

from ..http import Http, one, post
from .inference import FLOATS, raw, with_binary
from .tensors import V2, asking, numbers, text

FLAT = {"text": "hi"}


def both_dialects(name: str, model: str, **parameters: object) -> list[Http]:
    path = f"{V2}/{model}/generate_stream"
    return [
        post(f"{name}, v2", path, asking(**parameters)),
        post(f"{name}, flat", path, {**FLAT, "parameters": parameters}),
        post(f"{name}, flat with id", path, {"id": "mine", **FLAT, "parameters": parameters}),
    ]


CASES = [
    post("infer_stream", f"{V2}/stream/infer_stream", text()),
    post("infer_stream without id", f"{V2}/stream/infer_stream", {"inputs": text()["inputs"]}),
    post("infer_stream of many", f"{V2}/stream/infer_stream", asking(items=50)),
    post("infer_stream with newlines", f"{V2}/stream/infer_stream", asking(newlines=2)),
    post("infer_stream of a version", f"{V2}/versions/versions/2/infer_stream", text()),
    post("infer_stream of the newest", f"{V2}/versions/infer_stream", text()),
    post("infer_stream of a blocking model", f"{V2}/blocking-stream/infer_stream", text()),
    post("infer_stream of steps", f"{V2}/steps/infer_stream", text()),
    post("infer_stream of a sum", f"{V2}/running-sum/infer_stream", numbers()),
    with_binary(
        "infer_stream binary", f"{V2}/running-sum/infer_stream", {"id": "i", "inputs": [raw(8)]}, FLOATS
    ),
    post(
        "infer_stream binary out",
        f"{V2}/running-sum/infer_stream",
        numbers(parameters={"binary_data_output": True}),
    ),
    post(
        "infer_stream outputs chosen",
        f"{V2}/running-sum/infer_stream",
        {**numbers(), "outputs": [{"name": "total"}]},
    ),
    post(
        "infer_stream outputs unknown",
        f"{V2}/running-sum/infer_stream",
        {**numbers(), "outputs": [{"name": "z"}]},
    ),
    post("infer_stream in a worker", f"{V2}/worker/infer_stream", text()),
    post("infer_stream of model headers", f"{V2}/headed/infer_stream", text()),
    post(
        "infer_stream not compressed",
        f"{V2}/stream/infer_stream",
        asking(items=50),
        headers={"Accept-Encoding": "gzip"},
    ),
    post("infer_stream of a flat body", f"{V2}/stream/infer_stream", FLAT),
    post(
        "infer_stream dialect ignored",
        f"{V2}/stream/infer_stream",
        text(),
        headers={"X-Stream-Dialect": "triton"},
    ),
    *both_dialects("items", "stream"),
    *both_dialects("no item", "stream", items=0),
    *both_dialects("failure before the first", "stream", fail_at=0),
    *both_dialects("failure after the first", "stream", fail_at=1),
    *both_dialects("refusal before the first", "stream", refuse_at=0),
    *both_dialects("refusal after the first", "stream", refuse_at=1),
    *both_dialects("bad item first", "stream", bad_at=0),
    *both_dialects("bad item later", "stream", bad_at=1),
    *both_dialects("steps", "steps"),
    *both_dialects("steps that fail", "steps", fail_at=2),
    *both_dialects("steps refused", "steps", refuse=True),
    *both_dialects("version", "versions/versions/1"),
    *both_dialects("model headers", "headed"),
    *both_dialects("model that only predicts", "echo"),
    *both_dialects("unknown model", "nobody"),
    *both_dialects("unknown version", "versions/versions/3"),
    post("cached stream", f"{V2}/cached/infer_stream", text()),
    post("stream asked as v2", f"{V2}/stream/generate_stream", text(), headers={"X-Stream-Dialect": "v2"}),
    post(
        "stream asked as triton", f"{V2}/stream/generate_stream", FLAT, headers={"X-Stream-Dialect": "triton"}
    ),
    post(
        "stream v2 body as triton",
        f"{V2}/stream/generate_stream",
        text(),
        headers={"X-Stream-Dialect": "triton"},
    ),
    post(
        "stream flat body as v2",
        f"{V2}/stream/generate_stream",
        FLAT,
        headers={"X-Stream-Dialect": "mlserver"},
    ),
    post(
        "stream unknown dialect", f"{V2}/stream/generate_stream", text(), headers={"X-Stream-Dialect": "V2"}
    ),
    post("stream bad body", f"{V2}/stream/generate_stream", b"{"),
    post("stream too slow", f"{V2}/waiting/infer_stream", text(), headers={"X-Request-Timeout": "1"}),
    post("stream too slow, flat", f"{V2}/waiting/generate_stream", FLAT, headers={"X-Request-Timeout": "1"}),
    post("stream queue full", f"{V2}/holding/generate_stream", text())._replace(
        while_open=post("", f"{V2}/holding/infer_stream", text()).requests[0]
    ),
    one("generate_stream by GET", "GET", f"{V2}/stream/generate_stream"),
    one("infer_stream by GET", "GET", f"{V2}/stream/infer_stream"),
    one(
        "resume an unknown stream",
        "GET",
        f"{V2}/stream/infer_stream",
        headers={"Last-Event-ID": "0.unknown:1"},
    ),
    one("resume by a foreign id", "GET", f"{V2}/stream/infer_stream", headers={"Last-Event-ID": "7"}),
    one(
        "release an unknown stream", "DELETE", f"{V2}/stream/infer_stream", headers={"Last-Event-ID": "0.x:1"}
    ),
    *(
        one(f"release an unknown stream at {path}", "DELETE", V2 + path, headers={"Last-Event-ID": "0.x:1"})
        for path in (
            "/stream/generate_stream",
            "/versions/versions/1/infer_stream",
            "/versions/versions/1/generate_stream",
        )
    ),
    one("cancel an unknown request", "DELETE", "/v2/requests/unknown"),
    one("cancel an unknown request whose id has a slash", "DELETE", "/v2/requests/un/known"),
    one("a wrong method of a request", "GET", "/v2/requests/unknown"),
]
