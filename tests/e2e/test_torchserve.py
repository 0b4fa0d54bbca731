"""TorchServe's archives and routes: handlers as their users write them, asked as curl asks."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.http as triton

from tests import torchserve
from tests.serving import Running, eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served") / "models"
    folder.mkdir()
    torchserve.archive(folder / "echo.mar", "echo.py", {"echo.py": torchserve.ECHO})
    torchserve.archive(
        folder / "batched.mar", "counting", {"counting.py": torchserve.BATCHED}, torchserve.BATCHING
    )
    torchserve.archive(folder / "pieces.mar", "pieces:handle", {"pieces.py": torchserve.STREAMING})
    torchserve.archive(
        folder / "file.mar", "echo.py", {"echo.py": torchserve.ECHO}, modelName="named", modelVersion="2.1"
    )
    torchserve.archive(folder / "text.mar", "text_classifier", {})
    torchserve.archive(folder / "nowhere.mar", "absent.py", {})
    (folder / "broken.mar").write_bytes(b"no archive")
    running = Running(folder, within=60)
    yield running
    assert running.stop() == 0, running.text()


def test_each_archive_is_a_model(served: Running) -> None:
    index = httpx.post(f"{served.url}/v2/repository/index").json()
    states = {each["name"]: each["state"] for each in index}
    ready = dict.fromkeys(("echo", "batched", "pieces", "named"), "READY")
    assert states == {**ready, "text": "UNAVAILABLE", "nowhere": "UNAVAILABLE", "broken": "UNAVAILABLE"}
    reasons = {each["name"]: each["reason"] for each in index}
    assert "it needs torchtext" in reasons["text"]
    assert 'handler "absent" is neither a file of the archive' in reasons["nowhere"]
    assert "broken.mar is no archive of TorchServe" in reasons["broken"]
    listed = httpx.get(f"{served.url}/models").json()["models"]
    assert {"modelName": "echo", "modelUrl": "echo"} in listed


@pytest.mark.parametrize("path", ["echo", "echo/1.0", "named", "named/2.1"])
def test_function_accepts_bodies_and_forms(served: Running, path: str) -> None:
    url = f"{served.url}/predictions/{path}"
    put = httpx.put(url, content=b"\xff\x00 a file", headers={"x-said": "so"})  # curl -T
    assert (put.status_code, put.content, put.headers["x-seen"]) == (200, b"\xff\x00 a file", "so")
    form = httpx.post(url, files={"data": ("cat.png", b"\x89PNG", "image/png")})  # curl -F data=@cat.png
    assert (form.content, form.headers["content-type"]) == (b"\x89PNG", "application/octet-stream")
    assert httpx.post(url, data={"data": "coded"}).content == b"coded"  # curl -d data=coded
    said = httpx.post(url, json={"a": [1, "b"]})
    assert (said.json(), said.headers["content-type"]) == ({"value": {"a": [1, "b"]}}, "application/json")
    text = httpx.post(url, content="ä", headers={"content-type": "text/plain"})
    assert (text.text, text.headers["content-type"]) == ("ä", "text/plain; charset=utf-8")


@pytest.mark.parametrize("status", [201, 418])
def test_handler_sets_status(served: Running, status: int) -> None:
    answer = httpx.post(f"{served.url}/predictions/echo", data={"data": str(status)})
    assert (answer.status_code, answer.text) == (status, str(status))
    assert answer.headers["x-number"] == "1"


def test_streaming_handler_sets_status_before_first_chunk(served: Running) -> None:
    answer = httpx.post(f"{served.url}/predictions/pieces", data={"data": "refuse"})
    assert (answer.status_code, answer.text) == (409, "refused")


def test_a_path_without_a_model(served: Running) -> None:
    assert httpx.post(f"{served.url}/predictions/", content=b"x").status_code == 404


def test_missing_versions_and_models(served: Running) -> None:
    for path in ("echo/2.0", "nobody", "nobody/1.0"):
        answer = httpx.post(f"{served.url}/predictions/{path}", content=b"x")
        assert answer.status_code == 404
        assert answer.json()["type"] == "ModelNotFoundException"
        assert answer.json()["code"] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/models?url=x.mar"),
        ("PUT", "/models/echo?min_worker=2"),
        ("DELETE", "/models/echo"),
        ("POST", "/workflows"),
        ("POST", "/wfpredict/flow"),
        ("POST", "/explanations/echo"),
    ],
)
def test_missing_model_error_lists_available_ones(served: Running, method: str, path: str) -> None:
    answer = httpx.request(method, served.url + path)
    assert answer.status_code == 501
    assert " here: " in answer.json()["message"]


def test_probes(served: Running) -> None:
    assert httpx.get(f"{served.url}/ping").status_code in (200, 503)


async def test_class_receives_batches_and_request_headers(served: Running) -> None:
    async with httpx.AsyncClient(timeout=60) as client:

        async def ask(value: int) -> httpx.Response:
            return await client.post(
                f"{served.url}/predictions/batched", json={"value": value}, headers={"x-said": str(value)}
            )

        answers = await asyncio.gather(*map(ask, range(16)))
    documents = [answer.json() for answer in answers]
    assert [each["value"] for each in documents] == [3 * value for value in range(16)]
    assert [each["said"] for each in documents] == [str(value) for value in range(16)]
    assert {each["most"] for each in documents} == {4}
    assert max(each["rows"] for each in documents) > 1


def test_yielded_items_are_chunks(served: Running) -> None:
    with httpx.stream("POST", f"{served.url}/predictions/pieces", content=b"x") as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert "".join(answer.iter_text()) == "piece 0 piece 1 piece 2 last"


def test_triton_client_calls_handler(served: Running) -> None:
    with triton.InferenceServerClient(f"127.0.0.1:{served.http_port}") as client:
        given = triton.InferInput("data", [2], "BYTES")
        given.set_data_from_numpy(np.array([b"one", b"two"], np.object_))
        for model, expected in (("echo", [b"one", b"two"]), ("pieces", None)):
            if expected is None:
                given = triton.InferInput("data", [1], "BYTES")
                given.set_data_from_numpy(np.array([b"one"], np.object_))
                expected = [b"piece 0 piece 1 piece 2 last"]
            assert client.infer(model, [given]).as_numpy("output").tolist() == expected


def test_kserve_v1_calls_handler(served: Running) -> None:
    answer = httpx.post(
        f"{served.url}/v1/models/echo:predict", json={"instances": [{"data": "a"}, {"data": "b"}]}
    )
    assert answer.json() == {"predictions": ["a", "b"]}


def test_other_models_have_no_predictions(tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "app.py").write_text(
        "from inferstream import App\napp = App()\n\n@app.model\ndef double(n: int) -> int:\n    return 2 * n\n"
    )
    running = Running(folder, within=60)
    try:
        answer = httpx.post(f"{running.url}/predictions/double", json={"n": 1})
        assert answer.status_code == 400
        assert "no handler of TorchServe" in answer.json()["message"]
    finally:
        assert running.stop() == 0, running.text()


@pytest.mark.parametrize(("flags", "name"), [((), "named"), (("--model-name", "other"), "other")])
def test_archive_with_several_workers(tmp_path: Path, flags: tuple[str, ...], name: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    files = {"handler.py": torchserve.ECHO}
    torchserve.archive(folder / "file.mar", "handler.py", files, modelName="named")
    torchserve.archive(folder / "other.mar", "handler.py", files)
    running = Running(folder, *flags, target="models/file.mar", within=60, INFERSTREAM_PARALLEL_WORKERS="1")
    try:
        assert eventually(lambda: f"{name} has no settings: file.mar says that" in running.text())
        names = [each["name"] for each in httpx.post(f"{running.url}/v2/repository/index").json()]
        assert names == [name]
        answer = httpx.post(f"{running.url}/predictions/{name}/1.0", content=b"x", headers={"x-said": "so"})
        assert (answer.content, answer.headers["x-seen"]) == (b"x", "so")
    finally:
        assert running.stop() == 0, running.text()


def test_base_handler_with_pytorch_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = tmp_path / "models"
    folder.mkdir()
    torch.save({"scale": torch.tensor([2.0])}, weights := io.BytesIO())
    files: dict[str, str | bytes] = {"net.py": torchserve.NET, "handler.py": torchserve.TENSORS}
    files["weights.pth"] = weights.getvalue()
    named = {"modelFile": "net.py", "serializedFile": "weights.pth"}
    torchserve.archive(folder / "numbers.mar", "handler.py", files, "batchSize: 8\n", **named)
    running = Running(folder, within=120)
    try:
        answer = httpx.post(f"{running.url}/predictions/numbers", json={"values": [1.0, 2.5]}, timeout=60)
        assert answer.json() == {"doubled": [2.0, 5.0]}
    finally:
        assert running.stop() == 0, running.text()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # archives hold TorchScript, whatever comes after it
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_stock_image_classifier(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    from PIL import Image

    class Bright(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, images: "torch.Tensor") -> "torch.Tensor":  # type: ignore[name-defined]
            light = images.mean(dim=(1, 2, 3))
            return torch.stack([light, -light, light * 0, light * 0, light * 0], dim=1)

    folder = tmp_path / "models"
    folder.mkdir()
    torch.jit.save(torch.jit.trace(Bright(), torch.zeros(1, 3, 224, 224)), program := io.BytesIO())
    names = '{"0": "bright", "1": ["n1", "dark"], "2": "a", "3": "b", "4": "c"}'
    files = {"index_to_name.json": names, "model.pt": program.getvalue()}
    torchserve.archive(folder / "images.mar", "image_classifier", files, serializedFile="model.pt")
    running = Running(folder, within=120)
    try:
        for color, expected in (("white", "bright"), ("black", "dark")):
            Image.new("RGB", (300, 280), color).save(png := io.BytesIO(), "PNG")
            url = f"{running.url}/predictions/images"
            answer = httpx.put(url, content=png.getvalue(), timeout=60).json()
            assert len(answer) == 5
            assert max(answer, key=answer.get) == expected
    finally:
        assert running.stop() == 0, running.text()
