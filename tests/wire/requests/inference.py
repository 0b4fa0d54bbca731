"""REST: `infer` and `generate`, in JSON and binary form, and everything that is wrong with a request."""

import gzip
import json
import struct
import zlib
from typing import Any

from ..http import Http, one, post
from .tensors import V2, asking, mode, numbers, tensor, text

DATATYPES: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "UINT8": [0, 255],
    "UINT16": [0, 65535],
    "UINT32": [0, 2**32 - 1],
    "UINT64": [0, 2**64 - 1],
    "INT8": [-128, 127],
    "INT16": [-(2**15), 2**15 - 1],
    "INT32": [-(2**31), 2**31 - 1],
    "INT64": [-(2**63), 2**63 - 1],
    "FP16": [0.5, -2.0],
    "FP32": [0.1, 1e30],
    "FP64": [0.1, 1e300],
    "BYTES": ["ü", 'quote " and \\'],
}


def binary(document: dict, *blobs: bytes) -> tuple[bytes, dict[str, str]]:
    head = json.dumps(document, separators=(",", ":")).encode()
    return head + b"".join(blobs), {"Inference-Header-Content-Length": str(len(head))}


def with_binary(name: str, path: str, document: dict, *blobs: bytes, **headers: str) -> Http:
    body, head = binary(document, *blobs)
    return post(name, path, body, headers={**head, **headers})


FLOATS = struct.pack("<2f", 1.0, 2.5)
WORDS = struct.pack("<I", 2) + b"hi" + struct.pack("<I", 0)
ECHO = f"{V2}/echo/infer"
LONG = numbers(*[float(i) for i in range(200)])
BODY = json.dumps(numbers()).encode()


def raw(size: int, name: str = "x", **more: Any) -> dict:
    return {
        "name": name,
        "datatype": "FP32",
        "shape": [2],
        "parameters": {"binary_data_size": size},
        **more,
    }


WANTED = {"parameters": {"binary_data": True}}

JSON = [
    *(
        post(f"json {kind}", ECHO, {"id": "i", "inputs": [tensor("x", kind, data)]})
        for kind, data in DATATYPES.items()
    ),
    *(
        post(f"numpy {kind}", f"{V2}/arrays/infer", {"id": "i", "inputs": [tensor("x", kind, data)]})
        for kind, data in DATATYPES.items()
        if kind.startswith(("FP", "INT", "UINT8"))
    ),
    post(
        "json two tensors",
        ECHO,
        {"id": "i", "inputs": [tensor("x", "FP32", [1.5]), tensor("y", "BYTES", ["a", "b"])]},
    ),
    post("json nested data", ECHO, {"id": "i", "inputs": [tensor("x", "INT32", [[1, 2], [3, 4]], [2, 2])]}),
    post("json empty tensor", ECHO, {"id": "i", "inputs": [tensor("x", "FP32", [])]}),
    post("json scalar", ECHO, {"id": "i", "inputs": [tensor("x", "FP32", [1.0], [])]}),
    post(
        "json null values",
        ECHO,
        {"id": None, "parameters": None, "outputs": None, "inputs": [tensor("x", "FP32", [1.0, None])]},
    ),
    post(
        "json NaN",
        ECHO,
        b'{"id":"i","inputs":[{"name":"x","datatype":"FP32","shape":[3],"data":[NaN,Infinity,-Infinity]}]}',
    ),
    post(
        "json unknown keys",
        ECHO,
        {"id": "i", "model_name": "other", "x": 1, "inputs": [tensor("x", "FP32", [1.0], y=1)]},
    ),
    post("json no id", ECHO, {"inputs": [tensor("x", "FP32", [1.0])]}),
    post("json empty id", ECHO, {"id": "", "inputs": [tensor("x", "FP32", [1.0])]}),
    post(
        "json id by header",
        f"{V2}/mirror/infer",
        {"inputs": text()["inputs"]},
        headers={"X-Request-Id": "by-header"},
    ),
    post("json id in both", f"{V2}/mirror/infer", text(), headers={"X-Request-Id": "by-header"}),
    post(
        "json id by seldon",
        f"{V2}/mirror/infer",
        {"inputs": text()["inputs"]},
        headers={"seldon-puid": "puid"},
    ),
    post("json id ü", ECHO, numbers(id="ü\n")),
    post("json id too long", ECHO, numbers(id="i" * 1025)),
    post("json id no text", ECHO, numbers(id=5)),
    post(
        "json parameters",
        f"{V2}/mirror/infer",
        asking(a=1, b=0.5, c=True, d="text", e=None, say="number share flag text"),
    ),
    post("json headers", f"{V2}/mirror/infer", text(), headers={"X-Custom": "custom"}),
    post("json headers in body", f"{V2}/mirror/infer", asking(headers={"x-custom": "no"})),
    post("json outputs chosen", ECHO, {**numbers(), "outputs": [{"name": "x"}]}),
    post(
        "json outputs reordered",
        ECHO,
        {
            "id": "i",
            "inputs": [tensor("x", "FP32", [1.5]), tensor("y", "FP32", [2.5])],
            "outputs": [{"name": "y"}, {"name": "x"}],
        },
    ),
    post(
        "json outputs left out",
        ECHO,
        {
            "id": "i",
            "inputs": [tensor("x", "FP32", [1.5]), tensor("y", "FP32", [2.5])],
            "outputs": [{"name": "y"}],
        },
    ),
    post("json outputs unknown", ECHO, {**numbers(), "outputs": [{"name": "z"}]}),
    post("json outputs twice", ECHO, {**numbers(), "outputs": [{"name": "x"}, {"name": "x"}]}),
    post("json text codec", f"{V2}/text/infer", text("ü")),
    post("json version", f"{V2}/versions/versions/2/infer", text()),
    post("json newest version", f"{V2}/versions/infer", text()),
    post("json versioned model", f"{V2}/arrays/versions/v1/infer", numbers()),
    post("json name with slash", f"{V2}/names/with%20space%20%C3%BC/infer", numbers()),
    post("json name escaped", f"{V2}/e%63ho/infer", numbers()),
    post("json query", f"{ECHO}?a=b", numbers()),
    post(
        "json batched",
        f"{V2}/batched/infer",
        {"id": "i", "inputs": [tensor("x", "FP32", [1.0, 2.0], [2, 1])]},
    ),
    post("json worker", f"{V2}/worker/infer", text()),
    post("json steps", f"{V2}/steps/infer", text()),
    post("json legacy", f"{V2}/legacy/infer", numbers(parameters={"nested": {"a": [1]}})),
    post(
        "json legacy casts",
        f"{V2}/legacy/infer",
        {"id": "i", "inputs": [tensor("x", "FP32", ["1", True, 2])]},
    ),
    post(
        "json typed",
        f"{V2}/typed/infer",
        {"id": "i", "inputs": [tensor("numbers", "FP32", [1, 2]), tensor("names", "BYTES", ["a", "b"])]},
    ),
    post(
        "json typed missing", f"{V2}/typed/infer", {"id": "i", "inputs": [tensor("numbers", "FP32", [1, 2])]}
    ),
    post("json cached first", f"{V2}/cached/infer", text(id="one")),
    post("json cached again", f"{V2}/cached/infer", text(id="two")),
    post("json cached other", f"{V2}/cached/infer", text("ho", id="three")),
    post("json model headers", f"{V2}/headed/infer", text()),
    post("json odd content type", ECHO, numbers(), headers={"Content-Type": "text/plain"}),
    post("json accept ignored", ECHO, numbers(), headers={"Accept": "text/html"}),
    post("json priority", ECHO, numbers(), headers={"X-Request-Priority": "1"}),
    post("json time limit", ECHO, numbers(), headers={"X-Request-Timeout": "10"}),
    post("json dialect ignored", ECHO, numbers(), headers={"X-Stream-Dialect": "esperanto"}),
]

GENERATE = [
    post("generate v2", f"{V2}/both/generate", text()),
    post("generate v2 asked", f"{V2}/both/generate", text(), headers={"X-Stream-Dialect": "v2"}),
    post("generate flat", f"{V2}/text/generate", {"text": "hi"}),
    post("generate flat id", f"{V2}/text/generate", {"id": "mine", "text": "hi"}),
    post(
        "generate flat guessed",
        ECHO.replace("infer", "generate"),
        {"s": "hi", "i": [1, 2], "f": 0.5, "b": True, "none": None},
    ),
    post(
        "generate flat parameters",
        f"{V2}/mirror/generate",
        {"text": "hi", "parameters": {"a": 1, "b": "x", "say": "number share flag text"}},
    ),
    post(
        "generate flat declared",
        f"{V2}/declared/generate",
        {"a": [1, 2, 3, 4], "b": "hi", "temperature": 0.5},
    ),
    post("generate flat does not fill", f"{V2}/declared/generate", {"a": [1, 2, 3]}),
    post("generate flat array parameter", f"{V2}/declared/generate", {"a": [1, 2], "temperature": [0.5]}),
    post("generate flat wrong type", f"{V2}/text/generate", {"text": 5}),
    post("generate flat given twice", f"{V2}/text/generate", {"text": "hi", "parameters": {"text": "ho"}}),
    post("generate flat duplicate keys", f"{V2}/text/generate", b'{"text":"a","text":"b"}'),
    post("generate flat reserved", f"{V2}/text/generate", {"text": "hi", "triton_x": 1}),
    post("generate flat parameters no object", f"{V2}/text/generate", {"text": "hi", "parameters": []}),
    post(
        "generate flat asked", f"{V2}/text/generate", {"text": "hi"}, headers={"X-Stream-Dialect": "triton"}
    ),
    post("generate v2 as flat", f"{V2}/text/generate", text(), headers={"X-Stream-Dialect": "triton"}),
    post(
        "generate flat as v2", f"{V2}/text/generate", {"text": "hi"}, headers={"X-Stream-Dialect": "mlserver"}
    ),
    post(
        "generate unknown dialect",
        f"{V2}/text/generate",
        {"text": "hi"},
        headers={"X-Stream-Dialect": "esperanto"},
    ),
    post("generate flat version", f"{V2}/versions/versions/1/generate", {"text": "hi"}),
    post(
        "generate flat FP16",
        ECHO.replace("infer", "generate"),
        {"id": "i", "inputs": [tensor("x", "FP16", [1.0])]},
    ),
    post("generate flat failing", f"{V2}/failing/generate", {"text": "hi", "parameters": {"mode": "model"}}),
    post("generate flat headers", f"{V2}/headed/generate", {"text": "hi"}),
    post("generate of a stream", f"{V2}/stream/generate", {"text": "hi"}),
    post("generate unknown model", f"{V2}/nobody/generate", {"text": "hi"}),
    post("generate no object", f"{V2}/text/generate", [1]),
    with_binary("generate binary", f"{V2}/both/generate", {"id": "i", "inputs": [raw(8)]}, FLOATS),
]

BINARY = [
    with_binary("binary in", ECHO, {"id": "i", "inputs": [raw(8)]}, FLOATS),
    with_binary(
        "binary in and out",
        ECHO,
        {"id": "i", "inputs": [raw(8)], "outputs": [{"name": "x", **WANTED}]},
        FLOATS,
    ),
    with_binary(
        "binary through numpy",
        f"{V2}/arrays/infer",
        {"id": "i", "inputs": [raw(8)], "outputs": [{"name": "x", **WANTED}]},
        FLOATS,
    ),
    post("binary out", ECHO, {**numbers(), "outputs": [{"name": "x", **WANTED}]}),
    post("binary out by default", ECHO, {**numbers(), "parameters": {"binary_data_output": True}}),
    post(
        "binary out mixed",
        ECHO,
        {
            "id": "i",
            "parameters": {"binary_data_output": True},
            "inputs": [tensor("x", "FP32", [1.0]), tensor("y", "FP32", [2.0])],
            "outputs": [{"name": "x", "parameters": {"binary_data": False}}, {"name": "y"}],
        },
    ),
    with_binary(
        "binary texts",
        ECHO,
        {"id": "i", "inputs": [raw(10, "t", datatype="BYTES")], "parameters": {"binary_data_output": True}},
        WORDS,
    ),
    with_binary(
        "binary and json inputs", ECHO, {"id": "i", "inputs": [tensor("j", "INT8", [1, -1]), raw(8)]}, FLOATS
    ),
    with_binary(
        "binary FP16 and BF16",
        ECHO,
        {
            "id": "i",
            "parameters": {"binary_data_output": True},
            "inputs": [raw(4, datatype="FP16"), raw(4, "y", datatype="BF16")],
        },
        b"\0\x3c\0\x40",
        b"\x80\x3f\0\x40",
    ),
    with_binary(
        "binary BF16 as json", ECHO, {"id": "i", "inputs": [raw(4, datatype="BF16")]}, b"\x80\x3f\0\x40"
    ),
    post(
        "binary raw body", f"{V2}/running-sum/infer", FLOATS, headers={"Inference-Header-Content-Length": "0"}
    ),
    post(
        "binary raw body of text",
        f"{V2}/text/infer",
        b"hello",
        headers={"Inference-Header-Content-Length": "0"},
    ),
    post("binary raw body undeclared", ECHO, FLOATS, headers={"Inference-Header-Content-Length": "0"}),
    post("binary length beyond body", ECHO, BODY, headers={"Inference-Header-Content-Length": "9999"}),
    post("binary length no number", ECHO, BODY, headers={"Inference-Header-Content-Length": "x"}),
    with_binary("binary too short", ECHO, {"id": "i", "inputs": [raw(8)]}, FLOATS[:4]),
    with_binary("binary left over", ECHO, {"id": "i", "inputs": [raw(8)]}, FLOATS, b"more"),
    with_binary("binary wrong size", ECHO, {"id": "i", "inputs": [raw(4)]}, FLOATS[:4]),
    with_binary("binary and data", ECHO, {"id": "i", "inputs": [raw(8, data=[1, 2])]}, FLOATS),
    with_binary(
        "binary broken texts", ECHO, {"id": "i", "inputs": [raw(9, "t", datatype="BYTES")]}, WORDS[:9]
    ),
    post("binary size without header", ECHO, {"id": "i", "inputs": [raw(8)]}),
    post("binary flag no boolean", ECHO, {**numbers(), "parameters": {"binary_data_output": 1}}),
    with_binary(
        "binary texts not utf-8 as json",
        ECHO,
        {"id": "i", "inputs": [raw(6, "t", datatype="BYTES", shape=[1])]},
        b"\2\0\0\0\xff\xfe",
    ),
]

COMPRESSION = [
    post("gzip request", ECHO, gzip.compress(BODY), headers={"Content-Encoding": "gzip"}),
    post("deflate request", ECHO, zlib.compress(BODY), headers={"Content-Encoding": "deflate"}),
    post(
        "raw deflate request", ECHO, zlib.compress(BODY, wbits=-15), headers={"Content-Encoding": "deflate"}
    ),
    post("identity request", ECHO, BODY, headers={"Content-Encoding": "identity"}),
    post("unknown encoding", ECHO, BODY, headers={"Content-Encoding": "br"}),
    post("broken gzip", ECHO, BODY, headers={"Content-Encoding": "gzip"}),
    post("truncated gzip", ECHO, gzip.compress(BODY)[:-9], headers={"Content-Encoding": "gzip"}),
    post("bytes after gzip", ECHO, gzip.compress(BODY) + b"more", headers={"Content-Encoding": "gzip"}),
    post("gzip bomb", ECHO, gzip.compress(bytes(200_000)), headers={"Content-Encoding": "gzip"}),
    post("gzip response", ECHO, LONG, headers={"Accept-Encoding": "gzip"}),
    post("deflate response", ECHO, LONG, headers={"Accept-Encoding": "deflate"}),
    post("either response", ECHO, LONG, headers={"Accept-Encoding": "gzip;q=0.5, deflate;q=0.9"}),
    post("identity response", ECHO, LONG, headers={"Accept-Encoding": "gzip;q=0.5, identity"}),
    post("no gzip response", ECHO, LONG, headers={"Accept-Encoding": "gzip;q=0, br"}),
    post("small response", ECHO, numbers(), headers={"Accept-Encoding": "gzip"}),
    post(
        "gzip binary response",
        ECHO,
        {**LONG, "parameters": {"binary_data_output": True}},
        headers={"Accept-Encoding": "gzip"},
    ),
    post(
        "gzip both ways",
        ECHO,
        gzip.compress(json.dumps(LONG).encode()),
        headers={"Content-Encoding": "gzip", "Accept-Encoding": "gzip"},
    ),
]


def broken(name: str, body: object) -> Http:
    return post(f"bad {name}", ECHO, body)


def bad_input(name: str, /, **changed: Any) -> Http:
    whole = tensor("x", "FP32", [1.0, 2.0])
    return broken(
        name,
        {"id": "i", "inputs": [{key: value for key, value in (whole | changed).items() if value != "-"}]},
    )


BAD = [
    broken("empty body", b""),
    broken("no body", None),
    broken("no JSON", b"{"),
    broken("no UTF-8", b'{"id":"\xff"}'),
    broken("trailing comma", b'{"inputs":[],}'),
    broken("bytes after", b"{} {}"),
    broken("list", []),
    broken("text", "text"),
    broken("deep", b"[" * 5000),
    broken("no inputs", {}),
    broken("inputs null", {"inputs": None}),
    broken("inputs no list", {"inputs": {}}),
    broken("input no object", {"inputs": [1]}),
    broken("inputs empty", {"id": "i", "inputs": []}),
    bad_input("no name", name="-"),
    bad_input("name no text", name=1),
    bad_input("no datatype", datatype="-"),
    bad_input("datatype unknown", datatype="FP31"),
    bad_input("no shape", shape="-"),
    bad_input("shape no list", shape=2),
    bad_input("shape of texts", shape=["2"]),
    bad_input("shape negative", shape=[-2]),
    bad_input("shape overflow", shape=[2**40, 2**40]),
    bad_input("count", shape=[3]),
    bad_input("no data", data="-"),
    bad_input("data object", data={"a": 1}),
    bad_input("data text", data="text"),
    bad_input("data of texts", data=["a", "b"]),
    bad_input("data ragged", data=[[1.0], 2.0]),
    bad_input("integer out of range", datatype="INT8", data=[1, 300]),
    bad_input("integer not whole", datatype="INT32", data=[1.5, 2]),
    bad_input("boolean", datatype="BOOL", data=[2, 0]),
    bad_input("text a number", datatype="BYTES", data=[1, 2]),
    bad_input("its parameters no object", parameters=[]),
    bad_input("parameter an object", parameters={"a": {}}),
    bad_input("content type no text", parameters={"content_type": 1}),
    broken("parameters no object", numbers(parameters=1)),
    broken("parameter a list", numbers(parameters={"a": [1]})),
    broken("parameter reserved", numbers(parameters={"triton_x": 1})),
    broken("priority", numbers(parameters={"priority": 10})),
    broken("timeout", numbers(parameters={"timeout": -1})),
    broken("outputs no list", numbers(outputs={})),
    broken("output no object", numbers(outputs=[1])),
    broken("output no name", numbers(outputs=[{}])),
    broken("input twice", {"inputs": [tensor("x", "FP32", [1.0]), tensor("x", "FP32", [1.0])]}),
    broken("key twice", b'{"id":"a","id":"b","inputs":[]}'),
    post("bad priority header", ECHO, numbers(), headers={"X-Request-Priority": "12"}),
    post("bad time limit header", ECHO, numbers(), headers={"X-Request-Timeout": "soon"}),
    post("bad time limit zero", ECHO, numbers(), headers={"X-Request-Timeout": "0"}),
    post("multipart", ECHO, BODY, headers={"Content-Type": "multipart/form-data; boundary=x"}),
    post("too large", ECHO, b" " * 100_001),
    post("large enough", ECHO, json.dumps(numbers()).encode().ljust(100_000)),
    post("unknown model", f"{V2}/nobody/infer", numbers()),
    post("unknown model and no JSON", f"{V2}/nobody/infer", b"{"),
    post("unknown version", f"{V2}/versions/versions/3/infer", text()),
    post("version of a model without", f"{V2}/echo/versions/1/infer", numbers()),
    post("declared", f"{V2}/declared/infer", {"id": "i", "inputs": [tensor("a", "INT32", [1, 2], [1, 2])]}),
    post(
        "declared wrong datatype",
        f"{V2}/declared/infer",
        {"id": "i", "inputs": [tensor("a", "INT64", [1, 2], [1, 2])]},
    ),
    post(
        "declared wrong shape",
        f"{V2}/declared/infer",
        {"id": "i", "inputs": [tensor("a", "INT32", [1, 2, 3], [1, 3])]},
    ),
    post("declared and another", f"{V2}/declared/infer", {"id": "i", "inputs": [tensor("z", "INT32", [1])]}),
    post("strict", f"{V2}/strict/infer", {"id": "i", "inputs": [tensor("a", "INT32", [1, 2], [1, 2])]}),
    post("strict missing", f"{V2}/strict/infer", {"id": "i", "inputs": [tensor("b", "BYTES", ["x"])]}),
    post(
        "strict another",
        f"{V2}/strict/infer",
        {"id": "i", "inputs": [tensor("a", "INT32", [1, 2], [1, 2]), tensor("z", "INT32", [1])]},
    ),
    *(
        post(f"model fails: {word}", f"{V2}/failing/infer", mode(word))
        for word in (
            "value",
            "model",
            "say",
            "none",
            "count",
            "type",
            "negative",
            "range",
            "nan",
            "binary text",
        )
    ),
    post("model only streams", f"{V2}/stream/infer", text()),
    post("steps refused", f"{V2}/steps/infer", asking(refuse=True)),
    post("steps fail", f"{V2}/steps/infer", asking(fail_at=2)),
    post("model too slow", f"{V2}/impatient/infer", text()),
    post("client impatient", f"{V2}/slow/infer", text(), headers={"X-Request-Timeout": "0.1"}),
    post("request impatient", f"{V2}/slow/infer", asking(timeout=100_000)),
    post("queue full", f"{V2}/holding/infer", text())._replace(
        while_open=post("", f"{V2}/holding/infer_stream", text()).requests[0]
    ),
    one("infer by GET", "GET", ECHO),
    one("infer by PUT", "PUT", ECHO, numbers()),
    one("infer by HEAD", "HEAD", ECHO, headers={"Connection": "close"}),
    one("infer by OPTIONS", "OPTIONS", ECHO),
]

CASES = [*JSON, *GENERATE, *BINARY, *COMPRESSION, *BAD]
