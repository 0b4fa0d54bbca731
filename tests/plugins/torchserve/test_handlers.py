"""`BaseHandler`, in the steps that its subclasses replace."""

import io
from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.torchserve.context import HandlerContext
from inferstream.plugins.torchserve.handlers import BaseHandler
from tests.torchserve import NET


class Steps(BaseHandler):
    def preprocess(self, data: list[Any]) -> Any:
        return [row["data"] for row in data]

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        return [2 * each for each in data]

    def postprocess(self, data: Any) -> list[Any]:
        return [{"doubled": each} for each in data]


def context(folder: Path, **model: str) -> HandlerContext:
    return HandlerContext("m", str(folder), {"model": model}, 1, None, {})


def test_the_steps() -> None:
    handler = Steps()
    asked = context(Path())
    assert handler.handle([{"data": 1}, {"data": 2}], asked) == [{"doubled": 2}, {"doubled": 4}]
    assert handler.context is asked
    assert handler.get_device() is None


def test_weights_load_into_class(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(NET)
    torch.save({"scale": torch.tensor([3.0])}, weights := io.BytesIO())
    (tmp_path / "w.pth").write_bytes(weights.getvalue())
    (tmp_path / "index_to_name.json").write_text('{"0": "zero"}')
    handler = BaseHandler()
    handler.initialize(context(tmp_path, modelFile="net.py", serializedFile="w.pth"))
    assert handler.initialized
    assert handler.mapping == {"0": "zero"}
    assert handler.handle([[1.0], [2.0]], context(tmp_path)) == [[3.0], [6.0]]


def test_an_archive_without_a_model(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for model in ({}, {"serializedFile": "w.bin"}):
        with pytest.raises(InvalidSettings, match="neither a modelFile nor a serializedFile"):
            BaseHandler().initialize(context(tmp_path, **model))
    (tmp_path / "two.py").write_text("class A: ...\nclass B: ...\n")
    with pytest.raises(InvalidSettings, match=r"two\.py has 2 classes"):
        BaseHandler().initialize(context(tmp_path, modelFile="two.py"))
