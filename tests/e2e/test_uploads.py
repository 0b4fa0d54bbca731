"""Files as the whole body and in forms, to functions in the server and in workers, over HTTP/1 and HTTP/2."""

import base64
import gzip
import io
import json
from collections.abc import Iterator

import httpx
import pytest

from tests.serving import Running, write_model

APP = """
from collections.abc import Iterator

import numpy as np
from fastapi import UploadFile
from numpy.typing import NDArray
from PIL.Image import Image

from inferstream import App

app = App()


@app.model
def size(data: bytes, k: int = 1) -> int:
    return len(data) * k


@app.model
def pixels(image: Image, scale: float = 1.0) -> list[float]:
    return [image.width * scale, image.height * scale]


@app.model
async def file(file: UploadFile, flag: bool = False) -> dict:
    read = await file.read()
    return {"size": len(read), "filename": file.filename, "type": file.content_type, "flag": flag}


@app.model
def several(files: list[bytes], names: list[str]) -> dict:
    return {name: len(file) for name, file in zip(names, files)}


@app.model
def shout(text: str) -> str:
    return text.upper()


@app.model
def pieces(data: bytes) -> Iterator[int]:
    yield from data


@app.model
def total(x: NDArray[np.float32]) -> float:
    return float(x.sum())


@app.model
def both(a: bytes, b: bytes) -> int:
    return len(a) + len(b)
"""


@pytest.fixture(scope="module", params=[(), ("--workers", "1")], ids=["in process", "worker"])
def served(request, tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("uploads")
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(json.dumps({"max_body_bytes": 6_000_000}))
    running = Running(folder / "models", "--one-port", *request.param, target="app.py")
    yield running
    running.stop()


@pytest.fixture(params=["HTTP/1", "HTTP/2"])
def client(request, served: Running) -> Iterator[httpx.Client]:
    both = {"http1": request.param == "HTTP/1", "http2": request.param == "HTTP/2"}
    with httpx.Client(base_url=f"{served.url}/v2/models", timeout=20, **both) as client:
        yield client


def picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (3, 2)).save(file, "PNG")
    return file.getvalue()


def output(response: httpx.Response) -> object:
    assert response.status_code == 200, response.text
    body = response.json()
    return body["output"] if "output" in body else body["outputs"][0]["data"]


BRACKETS = b"[" * 5_000_000


@pytest.mark.parametrize(
    "kind", ["application/octet-stream", "image/png", "audio/wav", "video/mp4", "text/plain"]
)
@pytest.mark.parametrize(
    "body", [b"abc", b"", b"\xff{[\x00", BRACKETS], ids=["few", "none", "brackets", "many"]
)
def test_raw_body_is_the_only_required_argument(client: httpx.Client, kind: str, body: bytes) -> None:
    headers = {"content-type": kind}
    assert output(client.post("/size/generate", content=body, headers=headers)) == len(body)
    assert output(client.post("/size/infer/", content=body, headers=headers)) == [len(body)]


def test_raw_body_chunked_and_compressed(client: httpx.Client) -> None:
    headers = {"content-type": "Image/PNG; charset=binary"}
    assert output(client.post("/size/generate", content=iter([b"ab", b"c"]), headers=headers)) == 3
    packed = gzip.compress(bytes(1000))
    headers["content-encoding"] = "gzip"
    assert output(client.post("/size/generate", content=packed, headers=headers)) == 1000
    too_large = client.post("/size/generate", content=bytes(6_000_001), headers={"content-type": "image/png"})
    assert too_large.status_code == 413


def test_images_text_and_streams(client: httpx.Client) -> None:
    image = {"content-type": "image/png"}
    assert output(client.post("/pixels/generate", content=picture(), headers=image)) == [3.0, 2.0]
    text = {"content-type": "text/plain; charset=utf-8"}
    assert output(client.post("/shout/generate", content="grüß".encode(), headers=text)) == "GRÜSS"
    assert output(client.post("/shout/generate", content=b'{"text": "a"}', headers=text)) == "A"
    events = client.post("/pieces/generate_stream", content=b"\x01\x02", headers=image).text
    assert events.count("data:") == 2
    got = output(client.post("/file/generate", content=b"abc", headers=image))
    assert got == {"size": 3, "filename": "", "type": "image/png", "flag": False}


def test_form_fields(client: httpx.Client) -> None:
    file = ("a.bin", b"abc", "application/octet-stream")
    assert output(client.post("/size/generate", files={"data": file})) == 3
    assert output(client.post("/size/generate", files={"data": file}, data={"k": "2"})) == 6
    assert output(client.post("/size/infer", files={"data": file}, data={"k": "2"})) == [6]
    scaled = client.post("/pixels/generate", files={"image": ("a.png", picture())}, data={"scale": "2.5"})
    assert output(scaled) == [7.5, 5.0]
    got = output(
        client.post("/file/generate", files={"file": ("ü.png", b"abc", "image/png")}, data={"flag": "true"})
    )
    assert got == {"size": 3, "filename": "ü.png", "type": "image/png", "flag": True}
    many = [("files", ("a", b"abc")), ("files", ("b", b"d"))]
    assert output(client.post("/several/generate", files=many, data={"names": ["x", "y"]})) == {
        "x": 3,
        "y": 1,
    }
    assert output(client.post("/several/generate", files=many, data={"names": '["x", "y"]'})) == {
        "x": 3,
        "y": 1,
    }
    assert output(client.post("/both/generate", files={"a": b"12", "b": b"345"})) == 5


@pytest.mark.parametrize(
    ("path", "files", "data", "named"),
    [
        ("size", {"other": b"a"}, {}, '"other" is no argument'),
        ("size", {"data": b"a"}, {"k": "x"}, 'argument "k" takes a whole number'),
        ("both", {"a": b"a"}, {}, 'argument "b" is missing'),
        ("pixels", {"image": b"no image"}, {}, "not an image"),
        ("size", [("data", b"a"), ("data", b"b")], {}, 'field "data" is given twice'),
    ],
)
def test_invalid_form_names_field(client: httpx.Client, path, files, data, named: str) -> None:
    refused = client.post(f"/{path}/generate", files=files, data=data)
    assert refused.status_code == 400
    assert named in refused.json()["error"]


def test_unexpected_file_is_refused_by_name(client: httpx.Client) -> None:
    refused = client.post("/both/generate", content=b"abc", headers={"content-type": "image/png"})
    assert refused.status_code == 400
    assert "Content-Type image/png" in refused.json()["error"]
    assert "a, b" in refused.json()["error"]


def test_binary_bodies_without_json(client: httpx.Client) -> None:
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": "0"}
    assert output(client.post("/size/infer", content=b"\x03\x00\x00\x00abc", headers=headers)) == [3]
    assert output(client.post("/size/infer", content=b"abc", headers=headers)) == [3]
    floats = b"\x00\x00\x80?\x00\x00\x00@"
    assert output(client.post("/total/infer", content=floats, headers=headers)) == [3.0]


@pytest.mark.parametrize(
    "text",
    ["data:image/png;base64,YWJj", "YW\nJj\n", "YWJj", "data:;base64,YW Jj"],
)
def test_base64_variants(client: httpx.Client, text: str) -> None:
    assert output(client.post("/size/generate", json={"data": text})) == 3


def test_urlsafe_base64(client: httpx.Client) -> None:
    text = base64.urlsafe_b64encode(b"\xff\xef\xbe").decode()
    assert "-" in text or "_" in text
    assert output(client.post("/size/generate", json={"data": text})) == 3
    assert client.post("/size/generate", json={"data": "not base64!"}).status_code == 400


@pytest.mark.parametrize(
    "kind", ["application/octet-stream", "text/plain", "application/x-www-form-urlencoded"]
)
def test_json_is_read_with_any_content_type(client: httpx.Client, kind: str) -> None:
    headers = {"content-type": kind}
    flat = client.post("/size/generate", content=b'{"data": "YWJj", "k": 2}', headers=headers)
    assert output(flat) == 6
    tensor = {"name": "data", "shape": [1], "datatype": "BYTES", "data": ["YWJj"]}
    assert output(client.post("/size/infer", content=json.dumps({"inputs": [tensor]}), headers=headers)) == [
        3
    ]


CLASSES = """
from fastapi import UploadFile

from inferstream import MLModel, decode_args


class Size(MLModel):
    @decode_args
    def predict(self, data: bytes, k: int = 1) -> int:
        return len(data) * k


class File(MLModel):
    @decode_args
    async def predict(self, file: UploadFile) -> str:
        return f"{file.filename} {len(await file.read())}"


class Declared(MLModel):
    def predict(self, payload):
        return payload
"""


@pytest.fixture(scope="module", params=[(), ("--workers", "1")], ids=["in process", "worker"])
def classes(request, tmp_path_factory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("classes") / "models"
    for name in ("Size", "File"):
        write_model(folder, name, f"model.{name}", CLASSES)
    inputs = [{"name": "x", "datatype": "FP32", "shape": [1]}]
    write_model(folder, "Declared", "model.Declared", CLASSES, inputs=inputs)
    running = Running(folder, *request.param)
    with httpx.Client(base_url=f"{running.url}/v2/models", timeout=20) as client:
        yield client
    running.stop()


PNG = {"content-type": "image/png"}
FILE = {"files": {"data": ("a.bin", b"abc")}}


@pytest.mark.parametrize("action", ["generate", "infer", "generate_stream"])
@pytest.mark.parametrize(
    ("model", "sent", "found"),
    [
        ("Size", {"content": b"abc", "headers": PNG}, 3),
        ("Size", {"content": b"{abc", "headers": PNG}, 4),
        ("Size", {"content": b"abc", "headers": {"content-type": "application/octet-stream"}}, 3),
        ("Size", FILE, 3),
        ("Size", {**FILE, "data": {"k": "2"}}, 6),
        ("File", {"files": {"file": ("a.bin", b"abc")}}, "a.bin 3"),
    ],
)
def test_classes_accept_files(
    classes: httpx.Client, model: str, sent: dict, found: object, action: str
) -> None:
    answered = classes.post(f"/{model}/{action}", **sent)
    assert answered.status_code == 200, answered.text
    body = json.loads(answered.text.removeprefix("data: "))
    assert (body["outputs"][0]["data"][0] if action == "infer" else body["output-0"]) == found


def test_class_without_file_input_refuses_file_by_name(classes: httpx.Client) -> None:
    refused = classes.post("/Declared/generate", content=b"abc", headers=PNG)
    assert (refused.status_code, "one required argument" in refused.text) == (400, True), refused.text
    refused = classes.post("/Declared/generate", **FILE)
    assert (refused.status_code, "is no argument of the model" in refused.text) == (400, True), refused.text


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream"])
def test_classes_accept_json_with_any_content_type(classes: httpx.Client, kind: str) -> None:
    padded = {
        "parameters": {"a": "a" * 2000},
        "inputs": [{"name": "data", "datatype": "BYTES", "shape": [1], "data": ["YWJj"]}],
    }
    padded["inputs"][0]["parameters"] = {"content_type": "base64"}
    answered = classes.post("/Size/infer", content=json.dumps(padded), headers={"content-type": kind})
    assert answered.json()["outputs"][0]["data"] == [3], answered.text
