"""Functions of ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from inferstream import testing
from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
)


async def test_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from blazerpc.contrib.onnx import ONNXModel  # type: ignore[import-not-found]

    numbers = onnx.TensorProto.FLOAT
    described = [onnx.helper.make_tensor_value_info(name, numbers, ["n"]) for name in ("x", "y", "sum")]
    node = onnx.helper.make_node("Add", ["x", "y"], ["sum"])
    graph = onnx.helper.make_graph([node], "add", described[:2], described[2:])
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "add.onnx")
    model = ONNXModel(tmp_path / "add.onnx")
    assert (model.input_names, model.output_names) == (["x", "y"], ["sum"])
    one = np.ones(2, np.float32)
    assert model.predict_dict({"x": one, "y": one})["sum"].tolist() == [2, 2]
    with pytest.raises(ValueError, match="Expected 2 inputs"):
        model.predict(one)
    app = BlazeApp()

    @app.model("classifier")
    def classify(image: np.ndarray) -> np.ndarray:
        return model.predict(image, one)[0]

    async with testing.run(app) as models:
        assert (await models.infer("classifier", image=one)).outputs[0].data.flat() == [2, 2]
