"""The model in an archive."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inferstream import ModelParameters, ModelSettings, RowErrors
from inferstream.errors import InvalidOutput, InvalidRequest, ModelError, ModelLoadFailed
from inferstream.plugins.torchserve.envelope import Posted, PostedField, decode_response, encode_request
from inferstream.plugins.torchserve.model import ArchiveModel, StreamingArchiveModel
from inferstream.types import InferenceRequest, RequestInput
from tests import torchserve

CODE = """
from ts.utils.util import PredictionException

def handle(data, context):
    if data is None:
        return None
    first = data[0].get("data")
    if first == b"fail":
        raise PredictionException("too much", 507)
    if first == b"wrong":
        return {"a": 1}
    if first == b"less":
        return []
    for row, each in enumerate(data):
        if each.get("data") == b"odd":
            context.set_response_status(422, "odd", row)
    return [f"{context.get_request_id(row)} {each!r}" for row, each in enumerate(data)]
"""


def request(**columns: Any) -> InferenceRequest:
    inputs = [
        RequestInput(name=name, datatype=datatype, shape=shape, data=data)
        for name, (datatype, shape, data) in columns.items()
    ]
    return InferenceRequest(id="id", inputs=inputs)


def made(path: Path, kind: type[ArchiveModel] = ArchiveModel) -> ArchiveModel:
    parameters = ModelParameters(uri=str(path), version="1.0")
    return kind(ModelSettings(name="m", implementation=kind, parameters=parameters))


@pytest_asyncio.fixture
async def model(tmp_path: Path) -> AsyncIterator[ArchiveModel]:
    model = made(torchserve.archive(tmp_path / "m.mar", "handler.py", {"handler.py": CODE}))
    model.load()
    yield model
    model.unload()


def texts(model: ArchiveModel, asked: InferenceRequest) -> list[str]:
    return [each.decode() for each in model.predict(asked).outputs[0].data.flat()]


def test_calls_run_sequentially(model: ArchiveModel) -> None:
    assert model.settings.threads == 1


def test_rows_of_tensors(model: ArchiveModel) -> None:
    two = request(data=("BYTES", [2], ["a", b"b"]))
    assert texts(model, two) == ["id-0 {'data': b'a'}", "id-1 {'data': b'b'}"]
    table = request(data=("FP32", [1, 2], [1, 2]), name=("BYTES", [1], ["x"]))
    assert texts(model, table) == ["id {'data': [1.0, 2.0], 'name': b'x'}"]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"data": ("FP32", [0], [])},
        {"data": ("FP32", [2], [1, 2]), "more": ("FP32", [1], [1])},
        {"torchserve-request": ("BYTES", [1], ["no envelope"])},
    ],
)
def test_results_without_rows(model: ArchiveModel, columns: Any) -> None:
    with pytest.raises(InvalidRequest):
        model.predict(request(**columns))


def test_a_request_of_torchserves_routes(model: ArchiveModel) -> None:
    posted = Posted("own", {}, [PostedField("body", "application/json", b"[1]")])
    answer = decode_response(model.predict(encode_request(posted)).outputs[0])
    assert answer.content == b"own {'body': [1]}"


def test_failures(model: ArchiveModel) -> None:
    with pytest.raises(ModelError, match="too much") as failed:
        model.predict(request(data=("BYTES", [1], ["fail"])))
    assert failed.value.status_code == 507
    with pytest.raises(InvalidOutput, match="returned a dict for 1 rows"):
        model.predict(request(data=("BYTES", [1], ["wrong"])))
    with pytest.raises(InvalidOutput, match="returned a list of 0 for 1 rows"):
        model.predict(request(data=("BYTES", [1], ["less"])))
    with pytest.raises(RowErrors) as rows:
        model.predict(request(data=("BYTES", [2], ["a", "odd"])))
    assert rows.value.errors[1].status_code == 422
    assert {*rows.value.errors} == {1}


async def test_unpacked_folder_is_removed(tmp_path: Path) -> None:
    code = "def handle(data, context):\n    handle.folder = context.system_properties['model_dir']\n"
    model = made(torchserve.archive(tmp_path / "m.mar", "h.py", {"h.py": code}))
    model.load()
    folder = Path(model._entry.handle.folder)  # type: ignore[attr-defined]
    assert folder.is_relative_to(Path(tempfile.gettempdir()).resolve())
    assert (folder / "h.py").is_file()
    model.unload()
    assert not folder.exists()


async def test_archive_with_path_traversal(tmp_path: Path) -> None:
    path = torchserve.archive(tmp_path / "m.mar", "h.py", {"../h.py": "x"})
    with pytest.raises(ModelLoadFailed, match=r"m\.mar cannot be unpacked: its member"):
        await (model := made(path)).load()
    model.unload()


async def test_pieces(tmp_path: Path) -> None:
    path = torchserve.archive(tmp_path / "m.mar", "h.py", {"h.py": torchserve.STREAMING})
    model = made(path, StreamingArchiveModel)
    model.load()
    assert isinstance(model, StreamingArchiveModel)
    asked = request(data=("BYTES", [1], ["x"]))
    streamed = [each.outputs[0].data.flat()[0] for each in model.predict_stream(iter([asked]))]
    assert streamed == [b"piece 0 ", b"piece 1 ", b"piece 2 ", b"last"]
    assert texts(model, asked) == ["piece 0 piece 1 piece 2 last"]
    model.unload()
