"""The conformance checklist of the protocol over REST; numbers in comments are its rows."""

import gzip
import json
import zlib

import httpx
import numpy as np
import pytest

from tests.serving import Running, fp32, tensor, text


def get(server: Running, path: str, **options) -> httpx.Response:
    return httpx.get(server.url + path, timeout=10, **options)


def test_server_metadata_with_and_without_slash(server: Running) -> None:  # 1, 2, 52
    for path in ("/v2", "/v2/"):
        answer = get(server, path, headers={"Accept-Encoding": "gzip, br"})
        assert answer.status_code == 200
        assert "content-encoding" not in answer.headers
        found = answer.json()
        assert found["name"] == "inferstream"
        assert isinstance(found["version"], str)
        assert "binary_tensor_data" in found["extensions"]


def test_health_bodies_suit_every_client(server: Running) -> None:  # 3, 4, 10, 11
    assert get(server, "/v2/health/live").json()["live"] is True
    ready = get(server, "/v2/health/ready").json()
    assert ready["ready"] is True
    assert ready["live"] is True
    assert get(server, "/v2/models/echo/ready").json() == {"name": "echo", "ready": True}
    assert get(server, "/").json() == {"status": "alive"}
    unknown = get(server, "/v2/models/nobody/ready")
    assert unknown.status_code == 404
    assert unknown.json()["error"]


def test_model_metadata(server: Running) -> None:  # 6, 7, 8, 9
    found = get(server, "/v2/models/declared").json()
    assert found["name"] == "declared"
    assert isinstance(found["platform"], str)
    assert found["inputs"][0] == {"name": "a", "datatype": "INT32", "shape": [-1, 2]}
    assert get(server, "/v2/models/versions/versions/2").status_code == 200
    assert get(server, "/v2/models/nobody").status_code == 404
    assert get(server, "/v2/models/versions/versions/7").status_code == 404


@pytest.mark.parametrize("path", ["names/with%20space%20%C3%BC", "names%2Fwith%20space%20%C3%BC"])
def test_names_with_slashes_spaces_and_utf8(server: Running, path: str) -> None:  # 12, 13
    assert get(server, f"/v2/models/{path}").json()["name"] == "names/with space ü"
    assert server.infer(path, fp32([1.0])).status_code == 200


def test_without_a_version_the_highest_number_answers(server: Running) -> None:
    assert server.infer("versions", text()).json()["model_version"] == "10"
    assert server.infer("versions/versions/2", text()).json()["model_version"] == "2"
    answer = server.infer("versions/versions/1", text(), "generate_stream")
    assert '"model_version":"1"' in answer.text


def test_flat_and_nested_data_are_the_same(server: Running) -> None:  # 16, 17, 25, 27
    flat = server.infer("arrays", {"inputs": [tensor("x", "FP32", [1, 2, 3, 4], [2, 2])]})
    nested = server.infer("arrays", {"inputs": [tensor("x", "FP32", [[1, 2], [3, 4]], [2, 2])]})
    assert flat.json()["outputs"] == nested.json()["outputs"]
    assert flat.json()["outputs"][0]["data"] == [1, 2, 3, 4]
    assert flat.headers["content-type"] == "application/json"
    assert flat.json()["model_name"] == "arrays"


def test_ids_are_echoed_or_made(server: Running) -> None:  # 18, 19, 20
    assert server.infer("echo", fp32([1.0], id="mine")).json()["id"] == "mine"
    for absent in ({}, {"id": None}, {"id": ""}):
        assert server.infer("echo", fp32([1.0], **absent)).json()["id"]
    lines = server.infer("streaming", text(id="each"), "infer_stream").text.split("\n\n")[:-1]
    assert [json.loads(line.removeprefix("data: "))["id"] for line in lines] == ["each"] * 3


def test_requested_outputs_come_alone_and_in_order(server: Running) -> None:  # 23
    asked = {
        "inputs": [tensor(name, "FP32", [1.0]) for name in "abc"],
        "outputs": [{"name": "c", "parameters": None}, {"name": "a"}],
    }
    assert [output["name"] for output in server.infer("echo", asked).json()["outputs"]] == ["c", "a"]


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"inputs": []}, '"a" is missing'),  # 30
        ({"inputs": [tensor("z", "INT32", [1, 2], [1, 2])]}, '"z"'),  # 31
        ({"inputs": [tensor("a", "INT64", [1, 2], [1, 2])]}, "INT32"),  # 32
        ({"inputs": [tensor("a", "INT32", [1, 2, 3], [1, 3])]}, "[-1, 2]"),  # 34
        ({"inputs": [tensor("a", "INT32", [1, 2], [1, 2])], "outputs": [{"name": "z"}]}, '"z"'),  # 24
    ],
)
def test_what_a_model_declares_is_checked(server: Running, request_: dict, named: str) -> None:
    answer = server.infer("strict", request_)
    assert answer.status_code == 400
    assert named in answer.json()["error"]
    if request_["inputs"] and named != '"z"':
        assert named in server.infer("declared", request_).json()["error"]


def test_shapes_may_differ_as_mlservers_codecs_make_them(server: Running) -> None:
    two = tensor("a", "INT32", [1, 2], [1, 2])
    for shape in ([1], [1, 1], []):
        assert (
            server.infer("declared", {"inputs": [two, tensor("b", "BYTES", ["x"], shape)]}).status_code == 200
        )


def test_binary_tensors_in_and_out(server: Running) -> None:  # 53, 54, 62, 63, 64, 65, 125
    a, b = np.arange(6, dtype="<f4"), np.array([7], dtype="<i8")
    header = json.dumps(
        {
            "inputs": [
                {"name": "a", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}},
                {"name": "b", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}},
                {"name": "c", "datatype": "BYTES", "shape": [1], "data": ["text"]},
            ],
            "outputs": [
                {"name": "c", "parameters": {"binary_data": True}},
                {"name": "a", "parameters": {"binary_data": True}},
                {"name": "b"},
            ],
        }
    ).encode()

    answer = httpx.post(
        f"{server.url}/v2/models/echo/infer",
        content=header + a.tobytes() + b.tobytes(),
        headers={"inference-header-content-length": str(len(header))},
    )

    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers["inference-header-content-length"])
    outputs = json.loads(answer.content[:length])["outputs"]
    assert [output["name"] for output in outputs] == ["c", "a", "b"]
    assert outputs[0]["parameters"]["binary_data_size"] == 8
    assert "data" not in outputs[1]
    assert outputs[2]["data"] == [7]
    assert answer.content[length:] == b"\x04\x00\x00\x00text" + a.tobytes()


def test_half_precision_travels_as_binary(server: Running) -> None:  # 44
    for datatype, raw in (("FP16", np.array([1.5], "<f2").tobytes()), ("BF16", b"\xc0\x3f")):
        header = json.dumps(
            {
                "inputs": [
                    {"name": "x", "datatype": datatype, "shape": [1], "parameters": {"binary_data_size": 2}}
                ],
                "parameters": {"binary_data_output": True},
            }
        ).encode()
        for model in ("echo", "arrays"):
            answer = httpx.post(
                f"{server.url}/v2/models/{model}/infer",
                content=header + raw,
                headers={"Inference-Header-Content-Length": str(len(header))},
            )
            assert answer.content.endswith(raw), answer.content
    assert server.infer("arrays", {"inputs": [tensor("x", "BF16", [1.5])]}).json()["outputs"][0]["data"] == [
        1.5
    ]


def test_a_raw_body_is_the_one_input(server: Running) -> None:  # 67, 128
    for model, body, expected in (
        ("one", np.arange(3, dtype="<f4").tobytes(), np.arange(3, dtype="<f4").tobytes()),
        ("one-text", b"hello", b"\x05\x00\x00\x00hello"),
    ):
        answer = httpx.post(
            f"{server.url}/v2/models/{model}/infer",
            content=body,
            headers={"Inference-Header-Content-Length": "0"},
        )
        assert answer.status_code == 200, answer.text
        assert answer.content[int(answer.headers["inference-header-content-length"]) :] == expected
    wrong = httpx.post(
        f"{server.url}/v2/models/declared/infer",
        content=b"x",
        headers={"Inference-Header-Content-Length": "0"},
    )
    assert wrong.status_code == 400


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip;q=0", None),
        ("br", None),
        ("gzip;q=0.1, deflate;q=0.9", "deflate"),
        ("identity", None),
    ],
)
def test_large_answers_are_compressed_for_those_who_ask(
    server: Running, accept: str, expected: str | None
) -> None:  # 71
    with httpx.stream(
        "POST",
        f"{server.url}/v2/models/echo/infer",
        json=fp32([1.0] * 1000),
        headers={"Accept-Encoding": accept},
    ) as answer:
        body = b"".join(answer.iter_raw())
    assert answer.headers.get("content-encoding") == expected
    plain = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}[expected](body)
    assert json.loads(plain)["outputs"][0]["data"] == [1.0] * 1000


def test_errors_and_streams_are_never_compressed(server: Running) -> None:  # 51
    for answer in (
        server.infer("nobody" * 20, fp32([1.0]), headers={"Accept-Encoding": "gzip"}),
        server.infer(
            "streaming",
            text(parameters={"items": 50}),
            "generate_stream",
            headers={"Accept-Encoding": "gzip"},
        ),
    ):
        assert "content-encoding" not in answer.headers


def test_tritons_flat_generate(server: Running) -> None:  # 101 to 106
    answer = server.infer("one-text", {"text": "hi", "temperature": 0.5}, "generate").json()
    assert answer == {"text": "hi", "model_name": "one-text", "model_version": ""}
    named = server.infer("one-text", {"id": "me", "parameters": {"text": "hi"}}, "generate").json()
    assert (named["id"], named["text"]) == ("me", "hi")
    stream = server.infer("both", {"text_input": "hi"}, "generate_stream")
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.headers["cache-control"] == "no-cache"
    [event] = stream.text.split("\n\n")[:-1]
    assert event.startswith("data: {")
    for bad in ({"text": [[1]]}, {"text": 1}, {"other": {"a": 1}, "text": "x"}, {"parameters": 1}, {}):
        refused = server.infer("one-text", bad, "generate_stream")
        assert refused.status_code == 400, bad
        assert refused.headers["content-type"] == "application/json"
    failed = server.infer("streaming", {"text": "x", "parameters": {"fail_at": 1}}, "generate_stream")
    assert failed.text.count("event:") == 0
    assert '{"error":' in failed.text.split("\n\n")[-2]
    several = server.infer("streaming", {"text": "x"}, "generate")
    assert several.status_code == 501


def test_v2_bodies_on_generate_are_v2(server: Running) -> None:  # 108, 109, 110
    for action in ("generate", "infer"):
        assert server.infer("echo", fp32([1.0]), action).json()["outputs"][0]["data"] == [1.0]
    for action in ("generate_stream", "infer_stream"):
        assert server.infer("streaming", text(), action).text.count("data: {") == 3
    assert server.infer("nobody", text(), "infer_stream").status_code == 404


def test_repository_bodies(server: Running) -> None:  # 72 to 74
    url = f"{server.url}/v2/repository"
    for body in (b"", b"{}"):
        found = httpx.post(f"{url}/index", content=body).json()
        assert all(
            isinstance(item[key], str) for item in found for key in ("name", "version", "state", "reason")
        )
    ready = httpx.post(f"{url}/index", json={"ready": True}).json()
    assert {item["state"] for item in ready} == {"READY"}
    for body in (b"", b"{}"):
        assert httpx.post(f"{url}/models/both/load", content=body, timeout=20).json() == {
            "name": "both",
            "load": True,
        }
    assert httpx.post(f"{url}/index", json={"ready": 1}).status_code == 400


def test_documents_describe_the_server_and_each_model(server: Running) -> None:
    document = get(server, "/v2/docs/dataplane.json").json()
    assert "/v2/models/{model_name}/generate_stream" in document["paths"]
    assert "InferenceRequest" in document["components"]["schemas"]
    one = get(server, "/v2/models/declared/docs/dataplane.json").json()
    assert "/v2/models/declared/infer" in one["paths"]
    example = one["paths"]["/v2/models/declared/infer"]["post"]["requestBody"]["content"]["application/json"][
        "example"
    ]
    assert server.infer("declared", example).status_code == 200
    for path in ("/docs", "/v2/docs", "/v2/models/declared/docs", "/v2/models/versions/versions/1/docs"):
        page = get(server, path)
        assert page.headers["content-type"].startswith("text/html")
        assert "https://" not in page.text
    assert get(server, "/v2/models/nobody/docs").status_code == 404


def test_status_profiles_answer_with_other_servers_codes(serve, tmp_path) -> None:
    from tests.serving import write_model

    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "impatient", "faulty_models.Slow", request_timeout=0.1)
    mlserver = serve(folder, INFERSTREAM_STATUS_PROFILE="mlserver")
    assert mlserver.infer("echo", {}).status_code == 422
    assert mlserver.infer("echo", {}).json()["detail"][0]["msg"]
    triton = serve(folder, INFERSTREAM_STATUS_PROFILE="triton")
    assert triton.infer("impatient", text()).status_code == 503


def test_browsers_of_allowed_origins_may_ask(start, tmp_path) -> None:
    from tests.serving import write_model

    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    (folder / "settings.json").write_text(
        '{"cors_settings": {"allow_origins": ["https://page"], "allow_methods": ["*"], "expose_headers": ["x-a"]}}'
    )
    server = start(folder)
    answer = server.infer("echo", fp32([1.0]), headers={"Origin": "https://page"})
    assert answer.headers["access-control-allow-origin"] == "https://page"
    assert answer.headers["access-control-expose-headers"].startswith("x-a, grpc-message, grpc-status")
    assert (
        "access-control-allow-origin"
        not in server.infer("echo", fp32([1.0]), headers={"Origin": "https://b"}).headers
    )
    asked = {"Origin": "https://page", "Access-Control-Request-Method": "POST"}
    assert httpx.options(f"{server.url}/v2/models/echo/infer", headers=asked).status_code == 200


def test_a_root_path_is_stripped_by_the_proxy_and_known_to_the_documents(start, tmp_path) -> None:
    from tests.serving import write_model

    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    server = start(folder, INFERSTREAM_ROOT_PATH="/ml")
    assert server.infer("echo", fp32([1.0])).status_code == 200
    assert get(server, "/v2/docs/dataplane.json").json()["servers"] == [{"url": "/ml"}]
