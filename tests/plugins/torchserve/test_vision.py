"""Handlers of images."""

import base64
import io

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from PIL import Image

from inferstream.plugins.torchserve.vision import ImageClassifier


def test_files_base64_and_lists() -> None:
    handler = ImageClassifier()
    handler.device = torch.device("cpu")
    Image.new("RGB", (300, 260), "white").save(png := io.BytesIO(), "PNG")
    coded = base64.b64encode(png.getvalue()).decode()
    numbers = torch.zeros(3, 224, 224).tolist()
    rows = [{"data": png.getvalue()}, {"body": coded}, {"data": numbers}]
    batch = handler.preprocess(rows)
    assert batch.shape == (3, 3, 224, 224)
    assert torch.equal(batch[0], batch[1])
    assert not batch[2].any()


def test_top_classes() -> None:
    handler = ImageClassifier()
    handler.set_max_result_classes(2)
    assert handler.get_max_result_classes() == 2
    handler.mapping = {"0": "a", "1": "b", "2": "c"}
    [answer] = handler.postprocess(torch.tensor([[0.0, 5.0, 3.0]]))
    assert [*answer] == ["b", "c"]
