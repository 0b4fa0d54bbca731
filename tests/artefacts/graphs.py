"""Small ONNX models, made by the library of the format."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.artefacts import models

Info = onnx.ValueInfoProto
Dimensions = Sequence[int | str | None]

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def tensor(name: str, kind: int, shape: Dimensions) -> Info:
    return helper.make_tensor_value_info(name, kind, shape)


def saved(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Info],
    outputs: Sequence[Info],
    path: Path,
    constants: dict[str, np.ndarray] | None = None,
) -> Path:
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    # Versions that older ONNX Runtimes read too.
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def classifier(folder: Path, file: str = "model.onnx") -> Path:
    """`models.classifier` as a graph: flowers in, species and probabilities out."""
    fitted = models.classifier()
    return saved(
        [
            helper.make_node("Gemm", ["flowers", "weights", "offsets"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["probabilities"]),
            helper.make_node("ArgMax", ["scores"], ["species"], axis=1, keepdims=0),
        ],
        [tensor("flowers", FLOAT, ["rows", 4])],
        [tensor("species", INT64, ["rows"]), tensor("probabilities", FLOAT, ["rows", 3])],
        folder / file,
        {"weights": fitted.coef_.T.astype(np.float32), "offsets": fitted.intercept_.astype(np.float32)},
    )


def unchanged(folder: Path, kind: int) -> Path:
    return saved(
        [helper.make_node("Identity", ["x"], ["y"])],
        [tensor("x", kind, ["n"])],
        [tensor("y", kind, ["n"])],
        folder / "model.onnx",
    )


def total(folder: Path) -> Path:
    """The sum of two tensors of as many rows."""
    return saved(
        [helper.make_node("Add", ["a", "b"], ["sum"])],
        [tensor("a", FLOAT, ["rows", 2]), tensor("b", FLOAT, ["rows", 2])],
        [tensor("sum", FLOAT, ["rows", 2])],
        folder / "model.onnx",
    )


def joined(folder: Path) -> Path:
    """The texts of two tensors, end to end."""
    return saved(
        [helper.make_node("Concat", ["first", "second"], ["all"], axis=0)],
        [tensor("first", STRING, ["m"]), tensor("second", STRING, ["n"])],
        [tensor("all", STRING, [None])],
        folder / "model.onnx",
    )


def picked(folder: Path) -> Path:
    """Rows of a table by their numbers."""
    return saved(
        [helper.make_node("Gather", ["table", "rows"], ["picked"])],
        [tensor("table", FLOAT, ["n", 2]), tensor("rows", INT64, [None])],
        [tensor("picked", FLOAT, [None, 2])],
        folder / "model.onnx",
    )


def doubled(folder: Path, shape: Dimensions) -> Path:
    return saved(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        [tensor("x", FLOAT, shape)],
        [tensor("y", FLOAT, shape)],
        folder / "model.onnx",
    )
