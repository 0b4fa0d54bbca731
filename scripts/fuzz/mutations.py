"""Wrong requests: documents, texts and bytes, each a small change of a right one."""

import copy
import json
import random
import struct
from typing import Any

from inferstream.protos import dataplane_pb2 as pb

NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 1e308, -0.0, 1.5, "", "a", "\x00", "\ud800", "é" * 40,
    "x" * 5000, [], [[]], [1, [2]], [None], ["a", 1], {}, {"a": {}}, [[[[]]]], "NaN", "[1,2]", "../../etc", "%00",
]  # fmt: skip
DATATYPES = ["BOOL", "UINT8", "INT8", "INT64", "UINT64", "FP16", "FP32", "FP64", "BYTES", "BF16", "FP128", ""]
SHAPES: list[Any] = [[1], [0], [-1], [2, 3], [], [2**40, 2**40], [1] * 33, [1.5], ["1"], None, "1", [True]]
ODD_BYTES = [
    b"\x00",
    b"\xff",
    b"\r\n",
    b"\n",
    b'"',
    b"\\",
    b"{",
    b"[",
    b"]",
    b",",
    b":",
    b"NaN",
    b"\xed\xa0\x80",
]


def document(choose: random.Random) -> dict[str, Any]:
    """A request in V2 or in flat JSON, right or wrong."""
    if choose.random() < 0.4:
        found: dict[str, Any] = {"prompt": "a b", "a": 1, "b": 2.5, "x": [1, 2, 3], "id": "1"}
        found = {name: value for name, value in found.items() if choose.random() < 0.6}
        found["messages"] = [{"role": "user", "content": "a b"}]
        found["model"] = choose.choice(["words", "add", "echo", "x"])
        found["jsonrpc"], found["method"], found["params"] = "2.0", "add", {"a": 1, "b": 2}
    else:
        found = {"inputs": [_tensor(choose) for _ in range(choose.choice([0, 1, 1, 1, 2, 3]))]}
        if choose.random() < 0.3:
            found["outputs"] = [{"name": "output"}]
        if choose.random() < 0.3:
            found["parameters"] = {"a": 1, "content_type": "np", "timeout": 5, "priority": 1}
        if choose.random() < 0.3:
            found["id"] = "request"
    for _ in range(choose.choice([0, 1, 1, 2])):
        change(found, choose)
    return found


def _tensor(choose: random.Random) -> dict[str, Any]:
    datatype = choose.choice(DATATYPES)
    data: Any = ["a", "b"] if datatype == "BYTES" else [1, 2, 3, 4]
    found = {
        "name": choose.choice(["a", "b", "x", "prompt"]),
        "datatype": datatype,
        "shape": copy.deepcopy(choose.choice(SHAPES)) if choose.random() < 0.4 else [len(data)],
        "data": data,
    }
    if choose.random() < 0.3:
        found["parameters"] = {
            "content_type": choose.choice(["np", "str", "base64", "datetime", "pd", "hg", ""])
        }
    if choose.random() < 0.1:
        found["parameters"] = {"binary_data_size": choose.choice([0, 4, -1, 10**9, "4"])}
        found.pop("data")
    return found


def change(value: Any, choose: random.Random) -> None:
    """Change one part of a document to something nasty, remove it, or add one."""
    places: list[tuple[Any, Any]] = []
    level = [value]
    while level:
        holder = level.pop()
        for key, inner in [*(holder.items() if isinstance(holder, dict) else enumerate(holder))]:
            places.append((holder, key))
            if isinstance(inner, dict | list) and inner:
                level.append(inner)
    if not places:
        return
    holder, key = choose.choice(places)
    kind = choose.random()
    if kind < 0.7:
        holder[key] = copy.deepcopy(choose.choice(NASTY))
    elif kind < 0.85:
        del holder[key]
    elif isinstance(holder, dict):
        holder[choose.choice(["extra", "", "id", "headers", "parameters"])] = copy.deepcopy(
            choose.choice(NASTY)
        )
    else:
        holder.append(copy.deepcopy(choose.choice(NASTY)))


def text(choose: random.Random) -> bytes:
    """A body: a document as JSON, and sometimes broken."""
    found = json.dumps(document(choose), ensure_ascii=choose.random() < 0.5).encode("utf-8", "surrogatepass")
    if choose.random() < 0.05:
        found = _long(choose)
    return broken(found, choose) if choose.random() < 0.3 else found


def _long(choose: random.Random) -> bytes:
    """A body long enough for the ways of large ones."""
    unit = choose.choice([b"1", b"-9", b"1.5", b"[]", b"[1]", b'"a"', b"{}", b"NaN", b"null", b'{"a":1}'])
    many = b",".join([unit] * choose.choice([20_000, 120_000]))
    head = b'{"inputs":[{"name":"x","datatype":"%b","shape":[1],"data":[' % choose.choice(DATATYPES).encode()
    return choose.choice([head + many + b"]}]}", b'{"x":[' + many + b"]}", b'{"inputs":[' + many + b"]}"])


def broken(found: bytes, choose: random.Random) -> bytes:
    """Bytes with some of them changed, removed, doubled or cut off."""
    changed = bytearray(found)
    for _ in range(choose.choice([1, 1, 2, 5])):
        at = choose.randrange(len(changed) + 1)
        kind = choose.random()
        if kind < 0.4:
            changed[at:at] = choose.choice(ODD_BYTES)
        elif kind < 0.6:
            changed[at : at + 1] = bytes([choose.randrange(256)])
        elif kind < 0.75:
            del changed[at : at + choose.choice([1, 2, 10])]
        elif kind < 0.9:
            changed[at:at] = changed[at : at + choose.choice([1, 20])]
        else:
            del changed[at:]
    return bytes(changed)


def raw_elements(choose: random.Random) -> bytes:
    """Raw contents of a tensor: elements with lengths, numbers, or noise."""
    kind = choose.random()
    if kind < 0.4:
        return b"".join(struct.pack("<I", choose.choice([0, 1, 3, 2**31])) + b"abc" for _ in range(3))
    if kind < 0.7:
        return struct.pack("<4f", 1, float("nan"), float("inf"), 1e-40)
    return choose.randbytes(choose.randrange(64))


def message(choose: random.Random) -> bytes:
    """One ModelInferRequest as bytes."""
    request = pb.ModelInferRequest(model_name=choose.choice(["words", "add", "total", "echo", "x", ""]))
    request.id = choose.choice(["", "a", "\n", "x" * 300])
    for _ in range(choose.choice([0, 1, 1, 2])):
        datatype = choose.choice(DATATYPES)
        tensor = request.inputs.add(name=choose.choice(["a", "b", "x", "prompt", ""]), datatype=datatype)
        tensor.shape.extend(choose.choice([[1], [0], [-1], [4], [2, 2], [2**40, 2**40], [1] * 33]))
        kind = choose.random()
        if kind < 0.5:
            field = choose.choice(
                [
                    "bool_contents",
                    "int_contents",
                    "int64_contents",
                    "uint_contents",
                    "fp32_contents",
                    "fp64_contents",
                ]
            )
            getattr(tensor.contents, field).extend([1, 0, 1, 1])
        elif kind < 0.7:
            tensor.contents.bytes_contents.extend([b"a", b"\xff", b""])
        else:
            request.raw_input_contents.append(raw_elements(choose))
        if choose.random() < 0.2:
            tensor.parameters["content_type"].string_param = choose.choice(["np", "str", "pd", "x"])
    if choose.random() < 0.2:
        request.outputs.add(name=choose.choice(["output", "", "x"]))
    if choose.random() < 0.2:
        request.parameters["timeout"].int64_param = choose.choice([-1, 0, 5, 2**62])
    found: bytes = request.SerializeToString()
    return broken(found, choose) if choose.random() < 0.3 else found
