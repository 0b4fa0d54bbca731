"""WebSocket: requests, streams, parts, cancels, binary messages, errors, and upgrades that are refused."""

import json
import struct
import zlib

from ..websocket import BINARY, CLOSE, KEY, PING, TEXT, Frame, Read, Socket
from .tensors import V2, asking, mode, numbers, tensor, text


def binary(document: dict, *blobs: bytes) -> bytes:
    head = json.dumps(document, separators=(",", ":")).encode()
    return struct.pack("<I", len(head)) + head + b"".join(blobs)


def talk(name: str, model: str, *steps: object, **options: object) -> Socket:
    return Socket(name, f"{V2}/{model}/stream", [*steps], **options)


def part(word: str, *values: float) -> dict:
    return {**(numbers(*values) if values else {"id": "i"}), "part": word}


FLOATS = struct.pack("<2f", 1.0, 2.5)
RAW = {"name": "x", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}
OUT = {"parameters": {"binary_data_output": True}}
DEFLATER = zlib.compressobj(wbits=-15)
DEFLATED = DEFLATER.compress(json.dumps(numbers()).encode()) + DEFLATER.flush(zlib.Z_SYNC_FLUSH)
DEFLATE = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
UPGRADE = Socket("", "", []).upgrade


def without(name: str, **changed: str) -> dict:
    return {key: value for key, value in UPGRADE.items() if key != name} | changed


CASES = [
    talk("single answer", "echo", numbers(), Read(1)),
    talk("two in turn", "echo", numbers(), Read(1), numbers(id="j"), Read(1)),
    talk("no id", "echo", {"inputs": numbers()["inputs"]}, Read(1)),
    talk(
        "id by header", "mirror", {"inputs": text()["inputs"]}, Read(1), headers={"X-Request-Id": "by-header"}
    ),
    talk("headers", "mirror", asking(a=1), Read(1), headers={"X-Custom": "custom"}),
    talk("same id again", "echo", numbers(), Read(1), numbers(), Read(1)),
    talk("model headers", "headed", text(), Read(3)),
    talk("stream", "stream", text(), Read(4)),
    talk("empty stream", "stream", asking(items=0), Read(1)),
    talk("stream of a version", "versions/versions/2", text(), Read(2)),
    talk("stream in a worker", "worker", text(), Read(2)),
    talk("steps", "steps", text(), Read(4)),
    talk("steps fail", "steps", asking(fail_at=2), Read(2)),
    talk("blocking stream", "blocking-stream", text(), Read(4)),
    talk("name with slash", "names/with%20space%20%C3%BC", numbers(), Read(1)),
    talk("failure before the first", "stream", asking(fail_at=0), Read(1)),
    talk("failure after the first", "stream", asking(fail_at=1), Read(2)),
    talk("refusal after the first", "stream", asking(refuse_at=1), Read(2)),
    talk("bad item", "stream", asking(bad_at=1), Read(2)),
    talk(
        "failure and another", "failing", mode("model"), Read(1), mode("value"), Read(1), mode("nan"), Read(1)
    ),
    talk(
        "parts", "running-sum", part("first", 1), Read(1), part("next", 2), Read(1), part("last", 3), Read(2)
    ),
    talk("parts with a bare last", "running-sum", part("first", 1), Read(1), part("last"), Read(1)),
    talk(
        "part of a whole one",
        "waiting",
        text(),
        Read(1),
        {"id": "i", "part": "next", "inputs": []},
        Read(1),
        {"id": "i", "cancel": True},
        Read(1),
    ),
    talk("part of nobody", "running-sum", part("next", 1), numbers(id="after"), Read(2)),
    talk(
        "bad part",
        "running-sum",
        part("first", 1),
        Read(1),
        {"id": "i", "part": "next", "inputs": 1},
        Read(1),
    ),
    talk("unknown part", "running-sum", part("second", 1), Read(1)),
    talk("part without id", "running-sum", {"part": "first", "inputs": []}, Read(1)),
    talk("cancel", "waiting", text(), Read(1), {"id": "i", "cancel": True}, Read(1)),
    talk("cancel of nobody", "echo", {"id": "nobody", "cancel": True}, numbers(), Read(1)),
    talk("cancel without id", "echo", {"cancel": True}, Read(1)),
    talk("id that runs", "waiting", text(), Read(1), text(), Read(1), {"id": "i", "cancel": True}, Read(1)),
    talk("binary in", "echo", binary({"id": "i", "inputs": [RAW]}, FLOATS), Read(1)),
    talk("binary out", "echo", numbers(**OUT), Read(1)),
    talk("binary stream", "running-sum", numbers(**OUT), Read(2)),
    talk("binary without length", "echo", b"\1", Read(1)),
    talk("binary beyond its end", "echo", b"\xff\0\0\0{}", Read(1)),
    talk("binary of JSON alone", "echo", binary(numbers()), Read(1)),
    talk("no JSON", "echo", "{", Read(1), numbers(), Read(1)),
    talk("no object", "echo", "[]", Read(1)),
    talk("no inputs", "echo", {"id": "i"}, Read(1)),
    talk("bad input", "echo", {"id": "i", "inputs": [tensor("x", "FP32", [1.0], [2])]}, Read(1)),
    talk("bad id", "echo", {"id": 5, "inputs": []}, Read(1)),
    talk("long id", "echo", numbers(id="i" * 1025), Read(1)),
    talk("outputs unknown", "echo", {**numbers(), "outputs": [{"name": "z"}]}, Read(1)),
    talk("client impatient", "waiting", text(), Read(2), headers={"X-Request-Timeout": "1"}),
    talk("model too slow", "impatient", text(), Read(1)),
    talk("ping", "echo", Frame(0x80 | PING, b"are you there"), Read(1)),
    talk(
        "fragments",
        "echo",
        Frame(TEXT, json.dumps(numbers())[:9].encode()),
        Frame(0x80, json.dumps(numbers())[9:].encode()),
        Read(1),
    ),
    talk("not UTF-8", "echo", Frame(0x80 | TEXT, b"\xff"), Read(1)),
    talk("too large", "echo", b" " * 100_001, Read(1)),
    talk("reserved opcode", "echo", Frame(0x83, b""), Read(1)),
    talk("reserved bit", "echo", Frame(0xC1, b"{}"), Read(1)),
    talk("close with a reason", "echo", Frame(0x80 | CLOSE, struct.pack(">H", 1001) + b"bye"), Read(1)),
    talk("close without a code", "echo", Frame(0x80 | CLOSE, b""), Read(1)),
    talk("close by itself", "echo"),
    talk("deflate", "echo", Frame(0xC1, DEFLATED.removesuffix(b"\0\0\xff\xff")), Read(1), headers=DEFLATE),
    talk("deflate broken", "echo", Frame(0xC0 | BINARY, b"\xff\xff\xff"), Read(1), headers=DEFLATE),
    talk("subprotocol", "echo", numbers(), Read(1), headers={"Sec-WebSocket-Protocol": "v2"}),
    talk("own page", "echo", headers={"Origin": "http://localhost"}),
    talk("foreign page", "echo", headers={"Origin": "http://evil"}),
    talk("foreign host", "echo", headers={"Host": "evil"}),
    talk("unknown model", "nobody"),
    talk("unknown version", "versions/versions/3"),
    talk("bad priority", "echo", headers={"X-Request-Priority": "x"}),
    talk("bad time limit", "echo", headers={"X-Request-Timeout": "x"}),
    Socket("unknown path", "/nowhere", []),
    Socket("path of infer", f"{V2}/echo/infer", []),
    Socket("path of health", "/v2/health/live", []),
    talk("without key", "echo", upgrade=without("Sec-WebSocket-Key")),
    talk("bad key", "echo", upgrade=UPGRADE | {"Sec-WebSocket-Key": KEY[:8]}),
    talk("old version", "echo", upgrade=UPGRADE | {"Sec-WebSocket-Version": "8"}),
]
