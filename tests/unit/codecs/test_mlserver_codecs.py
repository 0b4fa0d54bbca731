"""Every codec makes of every datatype what MLServer 1.7.1 makes of it.

`mlserver_codecs.json` was recorded by running that version's codecs; the differences we want are named here.
"""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from inferstream.codecs import (
    Base64Codec,
    DatetimeCodec,
    NumpyCodec,
    NumpyRequestCodec,
    StringCodec,
    StringRequestCodec,
)
from inferstream.codecs.pandas import PandasCodec
from inferstream.errors import CodecError
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput
from tests.unit.codecs.recorded import meant, told

TABLE = json.loads((Path(__file__).parent / "mlserver_codecs.json").read_text())
TENSORS: dict[str, Any] = {
    "np": NumpyCodec,
    "str": StringCodec,
    "base64": Base64Codec,
    "datetime": DatetimeCodec,
}
REQUESTS: dict[str, Any] = {"np": NumpyRequestCodec, "str": StringRequestCodec, "pd": PandasCodec}

Differs = Callable[[dict[str, Any]], bool]


def _of(codec: str, kind: str, *sought: str) -> Differs:
    return lambda case: case["codec"] == codec and any(part in json.dumps(case.get(kind)) for part in sought)


def _numbers(case: dict[str, Any]) -> bool:
    """A codec of lists is given numbers, and MLServer does not fail."""
    tensors = case.get("tensors") or [case.get("tensor", {"datatype": "BYTES"})]
    return (
        case["codec"] in ("str", "base64", "datetime")
        and tensors[0]["datatype"] != "BYTES"
        and "error" not in case["result"]
    )


def _no_base64(case: dict[str, Any]) -> bool:
    """Base64 is expected and something else comes, and MLServer does not fail."""
    if (
        case["codec"] != "base64"
        or case.get("tensor", {}).get("datatype") != "BYTES"
        or "error" in case["result"]
    ):
        return False
    return not all(map(_is_base64, meant(case["tensor"]["data"])))


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        return False
    return True


DIFFERENCES: dict[str, Differs] = {
    "byte arrays are one element each, not one buffer for all": _of("np", "payload", '"S2"'),
    "a column of bytes is not said to be text": _of("pd", "payload", '"object", [{"bytes"'),
    "pandas' own text and times are columns": _of("pd", "payload", '["str"', '["datetime64'),
    "numbers are no text, and no empty ones": _numbers,
    "what is not base64 is refused": _no_base64,
    "bytes in arrays keep their lengths": _of("np", "tensor", '{"bytes"'),
    "bytes in arrays of a request keep their lengths": _of("np", "tensors", '{"bytes"'),
    "an array of no text is one": _of("np", "tensor", '"BYTES", "shape": [0]'),
    "a missing text is missing, and not None spelt out": _of("np", "tensor", '["a", null]'),
    "a column's own content type is heeded": _of("pd", "tensors", '"base64"', '"datetime"'),
}


def encoded(case: dict[str, Any], level: str) -> Any:
    payload, options = meant(case["payload"]), case["options"]
    if level in ("input", "output"):
        encode = getattr(TENSORS[case["codec"]], f"encode_{level}")
        return told(encode("x", payload, **options).model_dump())
    codec = REQUESTS[case["codec"]]
    if level == "request":
        return told(codec.encode_request(payload, **options).model_dump())
    return told(codec.encode_response("m", payload, "v", **options).model_dump())


def decoded(case: dict[str, Any], level: str) -> Any:
    if level in ("input", "output"):
        kind = RequestInput if level == "input" else ResponseOutput
        return told(getattr(TENSORS[case["codec"]], f"decode_{level}")(kind(**meant(case["tensor"]))))
    codec, tensors = REQUESTS[case["codec"]], [meant(tensor) for tensor in case["tensors"]]
    if level == "request":
        return told(codec.decode_request(InferenceRequest(inputs=tensors)))
    return told(codec.decode_response(InferenceResponse(model_name="m", outputs=tensors)))


def found(work: Callable[[dict[str, Any], str], Any], case: dict[str, Any], level: str) -> Any:
    """What comes of a case; a failure must be the kind that clients read as theirs."""
    try:
        return work(case, level)
    except CodecError:
        return "error"


@pytest.mark.parametrize(("operation", "work"), [("encode", encoded), ("decode", decoded)])
def test_recorded_results_are_reproduced(operation: str, work) -> None:
    met = set()
    for case in TABLE[operation]:
        expected = "error" if "error" in case["result"] else case["result"]
        reasons = [reason for reason, differs in DIFFERENCES.items() if differs(case)]
        met.update(reasons)
        for level in case["levels"]:
            result = found(work, case, level)
            assert (result != expected) == bool(reasons), (level, case, result, reasons)
    assert met


def test_every_listed_difference_occurs() -> None:
    cases = TABLE["encode"] + TABLE["decode"]
    assert [reason for reason, differs in DIFFERENCES.items() if not any(map(differs, cases))] == []


DATATYPES = {
    case["payload"]["dtype"]: case["result"]["datatype"]
    for case in TABLE["encode"]
    if case["codec"] == "np" and "input" in case["levels"] and case["payload"]["dtype"][0] in "biuf"
}
"""Of each NumPy dtype of numbers."""

ADDED = {
    len(case["payload"]["shape"]): case["result"]["shape"][len(case["payload"]["shape"]) :]
    for case in TABLE["encode"]
    if case["codec"] == "np" and "input" in case["levels"] and case["payload"]["dtype"] == "int64"
}
"""What is appended to the shape of an array of so many dimensions."""

DECODED = {
    (case["codec"], case["tensor"]["datatype"]): case["result"]
    for case in TABLE["decode"]
    if "tensor" in case
    and case["tensor"]["shape"] == [2]
    and not any(differs(case) for differs in DIFFERENCES.values())
}
"""What each codec makes of two values of each datatype."""


def test_table_covers_every_datatype() -> None:
    assert len(DATATYPES) == 12
    assert set(ADDED) == {0, 1, 2, 3}
    assert {datatype for codec, datatype in DECODED if codec == "np"} == {*DATATYPES.values(), "BYTES"}


@pytest.mark.parametrize("dtype", DATATYPES)
def test_arrays_are_encoded_by_the_recorded_rules(dtype: str) -> None:
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.startswith("float") else {}
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)

    @given(hnp.arrays(dtype, shapes, elements=hnp.from_dtype(np.dtype(dtype), **finite)), st.text(min_size=1))
    def check(array: np.ndarray, name: str) -> None:
        for encode in (NumpyCodec.encode_input, NumpyCodec.encode_output):
            tensor = encode(name, array)
            assert (tensor.name, tensor.datatype) == (name, DATATYPES[dtype])
            assert tensor.shape == [*array.shape, *ADDED[array.ndim]]
            assert tensor.parameters.content_type == "np"
            assert tensor.data.root == array.reshape(-1).tolist()
        response = NumpyRequestCodec.encode_response("m", array)
        assert response.outputs[0].name == "output-1"

    check()


@pytest.mark.parametrize("datatype", DATATYPES.values())
def test_numbers_are_decoded_by_the_recorded_rules(datatype: str) -> None:
    recorded = {codec: result for (codec, of), result in DECODED.items() if of == datatype}
    dtype = next(dtype for dtype, name in DATATYPES.items() if name == datatype)
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.startswith("float") else {}

    @given(
        hnp.arrays(
            dtype,
            hnp.array_shapes(max_dims=3, max_side=3),
            elements=hnp.from_dtype(np.dtype(dtype), **finite),
        )
    )
    def check(array: np.ndarray) -> None:
        for data in (array.reshape(-1).tolist(), array.tolist()):
            tensor = RequestInput(name="x", datatype=datatype, shape=list(array.shape), data=data)
            for codec, expected in recorded.items():
                if "error" in expected:
                    with pytest.raises(CodecError):
                        TENSORS[codec].decode_input(tensor)
                    continue
                result = TENSORS[codec].decode_input(tensor)
                assert (result.dtype.name, result.shape) == (expected["dtype"], array.shape), codec
                assert np.array_equal(result, array), codec

    assert "np" in recorded
    check()


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
TIMES = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1))  # noqa: DTZ001
LISTS: dict[str, tuple[Any, Callable[[Any], bytes]]] = {
    "str": (TEXT, str.encode),
    "base64": (st.binary(max_size=8), base64.b64encode),
    "datetime": (TIMES, lambda time: time.isoformat().encode()),
}
"""Values of each codec of lists, and their element on the wire."""


@pytest.mark.parametrize("codec", LISTS)
def test_lists_round_trip_by_the_recorded_rules(codec: str) -> None:
    values, element = LISTS[codec]
    case = next(case for case in TABLE["encode"] if case["codec"] == codec and len(case["payload"]) == 2)
    suffix = case["result"]["shape"][1:]

    @given(st.lists(values, max_size=4))
    def check(payload: list[Any]) -> None:
        tensor = TENSORS[codec].encode_input("x", payload)
        assert (tensor.datatype, tensor.shape) == (case["result"]["datatype"], [len(payload), *suffix])
        assert tensor.parameters.content_type == case["result"]["parameters"]["content_type"]
        assert tensor.data.root == [element(value) for value in payload]
        assert TENSORS[codec].decode_input(tensor) == payload

    check()
