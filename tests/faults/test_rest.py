"""Malformed REST: every fault has its status, names its culprit, and leaves the server alive."""

import functools
import gzip
import json
import socket
import zlib

import httpx
import pytest

from tests.serving import Running, eventually, fp32, tensor, text


def post(server: Running, body, model="echo", action="infer", **headers) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"{server.url}/v2/models/{model}/{action}"
    return httpx.post(
        url, content=content, headers={k.replace("_", "-"): v for k, v in headers.items()}, timeout=20
    )


def nested(depth: int) -> bytes:
    return (
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":'
        + b"[" * depth
        + b"1"
        + b"]" * depth
        + b"}]}"
    )


def one(datatype: str, data, shape=None, **more) -> dict:
    return {
        "inputs": [{"name": "x", "datatype": datatype, "shape": shape or [len(data)], "data": data, **more}]
    }


def raw(data: str, datatype: str = "FP32") -> bytes:
    return f'{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":[1],"data":[{data}]}}]}}'.encode()


REFUSED = {
    "truncated": b'{"inputs": [',
    "empty": b"",
    "scalar": b"1",
    "list": b"[]",
    "null": b"null",
    "no inputs": b"{}",
    "null inputs": b'{"inputs":null}',
    "input is no object": b'{"inputs":[1]}',
    "nesting 33": nested(33),
    "nesting 900": nested(900),
    "nesting 5000": nested(5_000),
    "nesting 250000": nested(250_000),
    "1e999": raw("1e999"),
    "400 digits": raw("1" * 400),
    "2^63 in INT64": raw("9223372036854775808", "INT64"),
    "2^64 in INT64": raw("18446744073709551616", "INT64"),
    "2^64 in UINT64": raw("18446744073709551616", "UINT64"),
    "300 in INT8": one("INT8", [300]),
    "-1 in UINT8": one("UINT8", [-1]),
    "1.5 in INT32": one("INT32", [1.5]),
    "1e39 in FP32": one("FP32", [1e39]),
    "text in FP32": one("FP32", ["1"]),
    "boolean in FP32": one("FP32", [True]),
    "number in BYTES": one("BYTES", [1]),
    "2 in BOOL": one("BOOL", [2]),
    "null in INT32": one("INT32", [None]),
    "null in BOOL": one("BOOL", [None]),
    "data too long": one("FP32", [1, 2], [1]),
    "data too short": one("FP32", [1], [2]),
    "no data": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]},
    "object as data": one("FP32", {"a": 1}, [1]),
    "dim -1": one("FP32", [1], [-1]),
    "dims 2, -5": one("FP32", [1], [2, -5]),
    "dim 2^63": one("FP32", [1], [2**63]),
    "dims wrap to 0": one("FP32", [1], [2**32, 2**32]),
    "dims wrap to 32": one("FP32", [1] * 32, [16, 2**60 + 2]),
    "zero and huge": one("FP32", [], [0, 2**62]),
    "float dim": one("FP32", [1], [1.0]),
    "text dim": one("FP32", [1], ["1"]),
    "boolean dim": one("FP32", [1], [True]),
    "shape is no list": one("FP32", [1], 1),
    "100000 dims": one("FP32", [1], [1] * 100_000),
    "unknown datatype": one("FP31", [1]),
    "lower-case datatype": one("fp32", [1]),
    "empty datatype": one("", [1]),
    "datatype is no text": one(32, [1]),
    "duplicate inputs": {"inputs": [tensor("x", "FP32", [1]), tensor("x", "FP32", [1])]},
    "duplicate keys": b'{"inputs":[],"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}',
    "duplicate keys in an input": b'{"inputs":[{"name":"x","name":"y","datatype":"FP32","shape":[1],"data":[1]}]}',
    "duplicate outputs": fp32([1], outputs=[{"name": "x"}, {"name": "x"}]),
    "unknown output": fp32([1], outputs=[{"name": "y"}]),
    "outputs is no list": fp32([1], outputs={"name": "x"}),
    "output without name": fp32([1], outputs=[{}]),
    "ragged": one("FP32", [[1, 2], [3]], [3]),
    "half nested": one("FP32", [[1], 2], [2]),
    "invalid UTF-8": b'{"inputs":[{"name":"\xff","datatype":"FP32","shape":[1],"data":[1]}]}',
    "lone surrogate": raw('"\\ud800"', "BYTES"),
    "lone surrogate beside NaN": raw('"\\ud800NaN"', "BYTES"),
    "half a pair in UTF-8 beside NaN": raw('"*NaN"', "BYTES").replace(b"*", b"\xed\xa0\x80"),
    "no UTF-8 beside NaN": raw('"*NaN"', "BYTES").replace(b"*", b"\xff"),
    "UTF-16 beside NaN": raw('"NaN"', "BYTES").decode().encode("utf-16"),
    "ragged texts": one("BYTES", ["a", ["b"]], [2]),
    "ragged texts for no values": one("BYTES", [["a"], ["b", "c"]], [0]),
    "texts nested too deep": one("BYTES", ["a", [[["b"]]]], [2]),
    "NUL in name": b'{"inputs":[{"name":"a\\u0000","datatype":"FP32","shape":[1],"data":[1]}]}',
    "empty name": {"inputs": [tensor("", "FP32", [1])]},
    "long name": {"inputs": [tensor("n" * 300, "FP32", [1])]},
    "257 inputs": {"inputs": [tensor(f"x{i}", "FP32", [1]) for i in range(257)]},
    "257 outputs": fp32([1], outputs=[{"name": f"x{i}"} for i in range(257)]),
    "257 parameters": fp32([1], parameters={f"p{i}": 1 for i in range(257)}),
    "id with CRLF": fp32([1], id="a\r\nb"),
    "id with ANSI": fp32([1], id="\x1b[31m"),
    "long id": fp32([1], id="i" * 2**20),
    "id is a number": fp32([1], id=7),
    "nested parameter": fp32([1], parameters={"a": {"b": 1}}),
    "list parameter": fp32([1], parameters={"a": [1]}),
    "parameters is no object": fp32([1], parameters=[1]),
    "reserved parameter": fp32([1], parameters={"triton_final_response": True}),
    "binary flag is no boolean": fp32([1], parameters={"binary_data_output": "yes"}),
    "content type is no text": one("BYTES", ["a"], parameters={"content_type": 1}),
    "binary size without header": {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}]
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_malformed_request_is_400_with_a_reason(server: Running, case: str) -> None:
    answer = post(server, REFUSED[case])

    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json()["error"], str)
    assert answer.json()["error"]
    assert "Traceback" not in answer.text
    server.probe()


@pytest.mark.parametrize(
    "case", ["300 in INT8", "data too long", "ragged", "ragged texts", "dim -1", "text in FP32"]
)
def test_the_reason_names_the_input(server: Running, case: str) -> None:
    assert 'input "x"' in post(server, REFUSED[case]).json()["error"]


ACCEPTED = {
    "scalar": (one("FP32", [5.0], []), [5.0]),
    "empty": (one("FP32", [], [0]), []),
    "empty without data": ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [0]}]}, []),
    "NaN and infinity": (raw("NaN, Infinity, -Infinity").replace(b"[1]", b"[3]"), [None, None, None]),
    "null in FP32": (one("FP32", [None, 1.0]), [None, 1.0]),
    "integral float in INT32": (one("INT32", [2.0]), [2.0]),
    "NUL in BYTES": (one("BYTES", ["a\x00b"]), ["a\x00b"]),
    "empty text and emoji": (one("BYTES", ["", "🙂"]), ["", "🙂"]),
    "INT64 extremes": (one("INT64", [-(2**63), 2**63 - 1]), [-(2**63), 2**63 - 1]),
    "UINT64 extremes": (one("UINT64", [0, 2**64 - 1]), [0, 2**64 - 1]),
    "booleans": (one("BOOL", [True, False]), [True, False]),
    "space before the colon": (b'{"inputs" : [{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}', [1]),
    "colon in text": (one("BYTES", ['":":":']), ['":":":']),
    "null fields": ({**fp32([1.0]), "id": None, "parameters": None, "outputs": None}, [1.0]),
    "null parameters": (fp32([1.0], parameters={"content_type": None, "headers": None}), [1.0]),
    "unknown keys": ({**fp32([1.0]), "model_name": "other", "extra": {"deep": [1]}}, [1.0]),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_unusual_request_is_served(server: Running, case: str) -> None:
    body, expected = ACCEPTED[case]

    answer = post(server, body)

    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["data"] == expected


@pytest.mark.parametrize("length", ["99999999999", "-1", "text", "3", ""])
def test_wrong_header_length_is_400(server: Running, length: str) -> None:
    assert post(server, fp32([1.0]), Inference_Header_Content_Length=length).status_code == 400
    server.probe()


def binary(size, blob: bytes, **more) -> tuple[bytes, int]:
    header = {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": size}, **more}
        ]
    }
    encoded = json.dumps(header).encode()
    return encoded + blob, len(encoded)


@pytest.mark.parametrize(
    ("size", "blob", "more"),
    [
        (8, b"1234", {}),
        (2, b"1234", {}),
        (-4, b"1234", {}),
        ("4", b"1234", {}),
        (4, b"12345", {}),
        (4, b"", {}),
        (3, b"123", {}),
        (4, b"1234", {"data": [1.0]}),
    ],
)
def test_a_wrong_binary_tensor_is_400(server: Running, size, blob, more) -> None:
    body, length = binary(size, blob, **more)
    assert post(server, body, Inference_Header_Content_Length=str(length)).status_code == 400
    server.probe()


def test_null_data_with_zero_binary_size_is_empty_tensor(server: Running) -> None:
    body, length = binary(0, b"", shape=[0], data=None)
    assert post(server, body, Inference_Header_Content_Length=str(length)).status_code == 200


@pytest.mark.parametrize("shape", [[1], [2], [0], [0, 2]])
@pytest.mark.parametrize(
    "body", [b"\x10\x00\x00\x00ab", b"\x01\x00", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00ab"]
)
def test_overrunning_bytes_elements_are_400(server: Running, body: bytes, shape: list[int]) -> None:
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "datatype": "BYTES",
                    "shape": shape,
                    "parameters": {"binary_data_size": len(body)},
                }
            ]
        }
    ).encode()
    answer = post(server, header + body, Inference_Header_Content_Length=str(len(header)))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith('input "x": ')


@pytest.mark.parametrize(
    "media_type", [None, "text/plain", "application/octet-stream", "application/x-www-form-urlencoded"]
)
def test_json_is_read_whatever_the_content_type(server: Running, media_type) -> None:
    headers = {"Content_Type": media_type} if media_type else {}
    assert post(server, fp32([1.0]), **headers).status_code == 200


def test_multipart_is_415(server: Running) -> None:
    assert post(server, fp32([1.0]), Content_Type="multipart/form-data; boundary=x").status_code == 415


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("br", b"x", 415),
        ("gzip", b"garbage", 400),
        ("gzip", gzip.compress(json.dumps(fp32([1.0])).encode(), mtime=0)[:-9], 400),
        ("gzip", gzip.compress(gzip.compress(json.dumps(fp32([1.0])).encode(), mtime=0), mtime=0), 400),
        ("gzip", gzip.compress(b"{}", mtime=0) + b"more", 400),
        ("gzip, gzip", b"x", 415),
        ("gzip", gzip.compress(json.dumps(fp32([1.0])).encode(), mtime=0), 200),
        ("x-gzip", gzip.compress(json.dumps(fp32([1.0])).encode(), mtime=0), 200),
        ("deflate", zlib.compress(json.dumps(fp32([1.0])).encode()), 200),
        ("deflate", zlib.compress(json.dumps(fp32([1.0])).encode())[2:-4], 200),
        ("identity", json.dumps(fp32([1.0])).encode(), 200),
    ],
)
def test_content_encodings(server: Running, encoding: str, body: bytes, status: int) -> None:
    answer = post(server, body, Content_Encoding=encoding)
    assert answer.status_code == status, answer.text
    if status == 415:
        assert answer.headers["accept-encoding"] == "gzip, deflate"
    server.probe()


@functools.cache
def bomb(encoding: str) -> bytes:
    """300 MiB that travel as 300 KiB."""
    deflater = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    spaces = b" " * 2**20
    return b"".join(deflater.compress(spaces) for _ in range(300)) + deflater.flush()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_decompression_bomb_is_413_and_uses_no_memory(server: Running, encoding: str) -> None:
    before = server.rss()

    answer = post(server, bomb(encoding), Content_Encoding=encoding)

    assert answer.status_code == 413
    assert server.rss() - before < 80 * 2**20
    server.probe()


def test_the_body_limit_is_exact(server: Running) -> None:
    limit = 4 * 2**20
    body = json.dumps(fp32([1.0])).encode()

    assert post(server, body + b" " * (limit - len(body))).status_code == 200
    assert post(server, body + b" " * (limit - len(body) + 1)).status_code == 413
    server.probe()


def test_a_chunked_body_over_the_limit_is_413(server: Running) -> None:
    def pieces():
        for _ in range(200):
            yield b" " * 65536

    try:
        status = httpx.post(f"{server.url}/v2/models/echo/infer", content=pieces()).status_code
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        status = 413  # closed while we were still sending, which is the point
    assert status == 413
    server.probe()


def exchange(server: Running, data: bytes, timeout: float = 8) -> bytes:
    """Send bytes over a socket of our own and read until the server closes, or says nothing more."""
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=timeout) as connection:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return received


HEAD = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"bad header line\r\n\r\n",
    ],
)
def test_ambiguous_framing_is_400_and_closes(server: Running, lines: bytes) -> None:
    assert exchange(server, HEAD + lines).startswith(b"HTTP/1.1 400")
    server.probe()


@pytest.mark.parametrize("before", [b"", b"1.1"], ids=["at once", "after 1.1"])
@pytest.mark.parametrize("kept", [b"", b"Connection: keep-alive\r\n"], ids=["plain", "keep-alive"])
def test_http_1_0_connection_is_closed_after_response(server: Running, before: bytes, kept: bytes) -> None:
    body = json.dumps(fp32([1.0])).encode()
    target = b"POST /v2/models/echo/infer HTTP/%s\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s"
    sent = target % (b"1.0", kept, len(body), body)
    if before:
        sent = target % (before, b"", len(body), body) + sent
    answers = exchange(server, sent)  # returns when the server has closed
    assert answers.count(b"HTTP/1.1 200") == (2 if before else 1)
    assert answers.count(b"connection: close") == 1


@pytest.mark.parametrize(
    "headers", [b"X-Large: " + b"a" * 2**20 + b"\r\n", b"".join(b"X-%d: 1\r\n" % i for i in range(5000))]
)
def test_oversized_headers_are_431(server: Running, headers: bytes) -> None:
    answer = exchange(server, HEAD + headers + b"\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
    server.probe()


def test_body_in_too_many_pieces_is_refused(server: Running) -> None:
    answer = exchange(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 65_600)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    server.probe()


@pytest.mark.parametrize("sent", [HEAD, HEAD + b"Content-Length: 100\r\n\r\nhalf"])
def test_incomplete_request_is_closed_at_deadline(server: Running, sent: bytes) -> None:
    assert exchange(server, sent).startswith(b"HTTP/1.1 408")
    server.probe()


def test_many_incomplete_requests_do_not_affect_others(server: Running) -> None:
    halves = [socket.create_connection(("127.0.0.1", server.http_port)) for _ in range(200)]
    for half in halves:
        half.sendall(HEAD)

    server.probe()

    for half in halves:
        half.settimeout(8)
        while half.recv(4096):
            pass
        half.close()


def test_two_pipelined_responses_keep_order(server: Running) -> None:
    good = json.dumps(fp32([1.0], id="second")).encode()
    request = HEAD + b"Content-Length: 1\r\n\r\n{" + HEAD
    request += b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(good), good)

    answer = exchange(server, request)

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b'"id":"second"' in answer


def test_pipelined_requests_are_served(server: Running) -> None:
    body = json.dumps(fp32([1.0])).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    last = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    answer = exchange(server, request * 3 + last)

    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(b'"outputs":') == 4


def test_requests_on_one_connection_have_own_headers(server: Running) -> None:
    wrong = {"X-Request-Timeout": "soon"}
    with httpx.Client() as client:
        answers = [
            client.post(f"{server.url}/v2/models/echo/infer", json=fp32([1.0]), headers=headers)
            for headers in ({}, {}, wrong, wrong, {}, {"X-Request-Timeout": "9"})
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 400, 400, 200, 200]


def test_unknown_models_and_versions_are_404(server: Running) -> None:
    assert server.infer("nobody", fp32([1.0])).status_code == 404
    assert server.infer("versions/versions/7", text()).status_code == 404
    assert server.infer("nobody", text(), "generate_stream").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v2/models/echo/infer", "POST"),
        ("GET", "/v2/models/echo/infer_stream", "POST"),
        ("PUT", "/v2/models/echo/generate_stream", "POST"),
        ("POST", "/v2/health/live", "GET"),
        ("POST", "/v2/models/echo/ready", "GET"),
        ("GET", "/v2/repository/index", "POST"),
    ],
)
def test_a_wrong_method_is_405(server: Running, method: str, path: str, allow: str) -> None:
    answer = httpx.request(method, server.url + path)
    assert answer.status_code == 405
    assert allow in answer.headers["allow"]
    assert answer.json()["error"]


def test_unknown_action_lists_known_actions(server: Running) -> None:
    answer = post(server, text(), action="generate_strem")
    assert answer.status_code == 404
    assert "infer, infer_stream, generate or generate_stream calls a model" in answer.json()["error"]


def test_an_unknown_route_is_404_with_an_error(server: Running) -> None:
    answer = httpx.get(f"{server.url}/v3/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"]


def test_request_headers_reach_model_and_are_not_returned(server: Running) -> None:
    answer = server.infer("mirror", text(), headers={"X-Custom": "seen"})

    assert answer.json()["outputs"][0]["data"] == ["seen"]
    assert "x-custom" not in answer.headers
    assert "headers" not in answer.json().get("parameters", {})


def test_model_headers_are_sent_unless_unsafe(server: Running) -> None:
    answer = server.infer("mirror", text(parameters={"set_header": True}))

    assert answer.headers["x-from-model"] == "yes"
    assert "x-bad" not in answer.headers
    assert answer.json()["outputs"]


@pytest.mark.parametrize(
    "mode", ["value", "exit", "interrupt", "memory", "recursion", "stop", "stop_async", "cancelled"]
)
@pytest.mark.parametrize("model", ["failing", "blocking-failing"])
def test_raising_model_is_500_and_leaks_no_details(server: Running, model: str, mode: str) -> None:
    if mode == "cancelled" and model == "blocking-failing":
        mode = "value"
    answer = server.infer(model, text(id="culprit", parameters={"mode": mode}))

    assert answer.status_code == (503 if mode == "memory" else 500), answer.text
    assert "canary" not in answer.text
    assert "culprit" in answer.json()["error"]
    eventually(lambda: "failed on request culprit" in server.text())
    server.probe()


def test_model_sets_response_status(server: Running) -> None:
    answer = server.infer("failing", text(parameters={"mode": "model"}))
    assert answer.status_code == 418
    assert answer.json()["error"] == "no tea today"


BAD_OUTPUTS = [
    "none",
    "type",
    "count",
    "value_type",
    "datatype",
    "range",
    "not_output",
    "array",
    "surrogate",
    "object_parameter",
]


@pytest.mark.parametrize("mode", BAD_OUTPUTS)
def test_a_bad_output_is_500(server: Running, mode: str) -> None:
    answer = server.infer("failing", text(parameters={"mode": mode}))
    assert answer.status_code == 500, answer.text
    if mode in ("count", "value_type", "datatype", "range", "array"):
        assert '"out"' in answer.json()["error"]
    server.probe()


def test_non_finite_outputs_are_null_and_bytes_are_base64(server: Running) -> None:
    assert server.infer("failing", text(parameters={"mode": "nan"})).json()["outputs"][0]["data"] == [
        None,
        None,
    ]
    output = server.infer("failing", text(parameters={"mode": "not_utf8"})).json()["outputs"][0]
    assert output["data"] == ["//4="]
    assert output["parameters"]["content_type"] == "base64"


def test_unknown_names_create_no_metrics(server: Running) -> None:
    before = len(httpx.get(f"{server.url}/metrics").text.splitlines())
    with httpx.Client() as client:
        for i in range(500):
            client.post(f"{server.url}/v2/models/unknown-{i}/infer", json=text())
    assert len(httpx.get(f"{server.url}/metrics").text.splitlines()) - before < 40


def test_requests_create_no_garbage_cycles(server: Running) -> None:
    """What it finds at a look at everything, it has let pile up, and that look stops every stream."""

    def collected() -> float:
        return sum(server.metric("python_gc_objects_collected_total", generation=str(g)) for g in range(3))

    before = collected()
    with httpx.Client() as client:
        for _ in range(500):
            answer = client.post(f"{server.url}/v2/models/echo/infer", json=fp32([1.0]))
            assert answer.status_code == 200
    assert collected() - before < 500
