"""Hypothesis strategies for requests that match a signature."""

import base64
from collections.abc import Sequence
from math import prod

from hypothesis import strategies as st

from inferstream.ext.values import DTYPES
from inferstream.types import InferenceRequest, MetadataTensor, RequestInput, TensorData

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x17F, exclude_characters="\x7f"), max_size=12)
WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=5), min_size=1, max_size=6).map(" ".join)
CONTENTS = {
    "base64": st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode()),
    "datetime": st.datetimes().map(lambda moment: moment.isoformat()),
}
MAX_ROWS = 3
SMALL = 4
"""Upper bound for half of the generated integers, because an integer can be the length of a stream."""
MAX_NUMBER = 100
"""Maximum absolute value of numbers, because they can be indices, and sums can overflow the datatype."""


@st.composite
def requests(
    draw: st.DrawFn, inputs: Sequence[MetadataTensor], number: int, rows: int | None
) -> list[InferenceRequest]:
    """Generate several requests with the same shapes.

    A variable first dimension is `rows`, or a small random number if None.
    """
    first = draw(st.integers(1, MAX_ROWS)) if rows is None else rows
    other = draw(st.integers(1, MAX_ROWS))
    shapes = [
        [size if size >= 0 else first if not at else other for at, size in enumerate(tensor.shape)]
        for tensor in inputs
    ]
    return [
        InferenceRequest(
            inputs=[
                _input(
                    tensor, shape, draw(st.lists(_values(tensor), min_size=prod(shape), max_size=prod(shape)))
                )
                for tensor, shape in zip(inputs, shapes, strict=True)
            ]
        )
        for _ in range(number)
    ]


def _input(tensor: MetadataTensor, shape: list[int], values: list[object]) -> RequestInput:
    content_type = tensor.parameters.content_type if tensor.parameters else None
    parameters = {"parameters": {"content_type": content_type}} if content_type else {}
    return RequestInput(
        name=tensor.name, datatype=tensor.datatype, shape=shape, data=TensorData(values), **parameters
    )


def _values(tensor: MetadataTensor) -> st.SearchStrategy[object]:
    if tensor.datatype == "BYTES":
        content_type = tensor.parameters.content_type if tensor.parameters else None
        return CONTENTS.get(content_type or "", st.one_of(WORDS, TEXT))
    kind = DTYPES[tensor.datatype].kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        least = 0 if kind == "u" else -1
        return st.one_of(st.integers(least, SMALL), st.integers(least * MAX_NUMBER, MAX_NUMBER))
    return st.floats(-MAX_NUMBER, MAX_NUMBER, width=16, allow_subnormal=False)


def summarize_requests(drawn: Sequence[InferenceRequest]) -> str:
    """Format the inputs of requests for reports."""
    texts = []
    for request in drawn:
        tensors = (f"{tensor.name}={list(tensor.data)} of shape {tensor.shape}" for tensor in request.inputs)
        texts.append(", ".join(tensors))
    text = " | ".join(texts)
    return text if len(text) <= 300 else f"{text[:297]}..."
