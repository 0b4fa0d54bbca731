"""Data frames as the arguments of a call, by what is known of the model."""

from typing import Any

import numpy as np
import pandas as pd

from inferstream.clients.model_types import PreparedCall
from inferstream.clients.tables import merge_arguments
from tests.unit.clients.test_model_types import declared, model

FRAME = pd.DataFrame({"age": [20, 30], "city": ["Rome", None]})


async def prepared(inputs: list[dict] | None, frame: pd.DataFrame = FRAME) -> PreparedCall:
    types = model(inputs)
    return await types.prepare(types.check(merge_arguments(frame, {})), {})


async def sent(
    inputs: list[dict] | None, frame: pd.DataFrame = FRAME
) -> list[tuple[str, str, list[int], Any]]:
    request = (await prepared(inputs, frame)).request
    return [(each.name, each.datatype, each.shape, each.data.flat()) for each in request.inputs]


async def test_model_without_declaration_gets_columns_with_content_type() -> None:
    request = (await prepared(None)).request
    assert request.parameters is not None
    assert request.parameters.content_type == "pd"
    assert [(each.name, each.shape) for each in request.inputs] == [("age", [2, 1]), ("city", [2, 1])]


async def test_described_columns_need_no_content_type() -> None:
    columns = [declared(name, "FP64", [-1], described=True) for name in ("age", "city")]
    request = (await prepared(columns)).request
    assert request.parameters is None
    assert await sent(columns) == [
        ("age", "INT64", [2, 1], [20, 30]),
        ("city", "BYTES", [2, 1], ["Rome", None]),
    ]


async def test_declared_columns_have_declared_datatypes() -> None:
    columns = [declared("city", "BYTES", [-1]), declared("age", "FP32", [-1])]
    frame = pd.DataFrame({"age": [20, 30], "city": ["Rome", "Oslo"]})
    assert await sent(columns, frame) == [
        ("age", "FP32", [2], [20.0, 30.0]),
        ("city", "BYTES", [2], ["Rome", "Oslo"]),
    ]


async def test_single_input_receives_the_whole_table() -> None:
    numbers = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    for said in ({}, {"described": True}):
        matrix = [declared("features", "FP64", [-1, 2], **said)]
        assert await sent(matrix, numbers) == [("features", "FP64", [2, 2], [1.0, 3.0, 2.0, 4.0])]
    ((name, datatype, _, (text,)),) = await sent(
        [declared("frame", "BYTES", [1], content_type="pd_json")], numbers
    )
    assert (name, datatype, text) == ("frame", "BYTES", '{"a":[1.0,2.0],"b":[3.0,4.0]}')


async def test_named_arguments_accompany_a_frame() -> None:
    known = merge_arguments(FRAME, {"flag": True})
    assert known == {"age": [20, 30], "city": FRAME.city.tolist(), "flag": True}
    assert merge_arguments({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert merge_arguments(None, {}) == {}


async def test_described_tensors_count_as_undeclared() -> None:
    outputs = [declared(name, "FP64", [-1, 1], described=True) for name in ("predict", "predict_proba")]
    types = model([declared("features", "FP64", [-1, 4], described=True)], outputs)
    call = await types.prepare(types.check({"foo": np.ones((1, 4), np.float32)}), {})
    (tensor,) = call.request.inputs
    assert (tensor.name, tensor.datatype, tensor.shape) == ("foo", "FP32", [1, 4])
