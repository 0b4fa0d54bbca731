"""pandas data frames, content type `pd`; imported only when frames are in play."""

from typing import Any

import numpy as np
import pandas as pd

from ..errors import CodecError
from ..types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput, TensorData
from .base import RequestCodec, content_type, response_of
from .json import decode_json_input_or_output, encode_to_json
from .lookup import get_decoded, has_decoded
from .numpy import decoded, encoded
from .registry import find_input_codec, register_request_codec

JSON_COLUMN = "pd_json"
"""Content type of a column whose cells are JSON texts of Python objects."""


def _to_series(tensor: RequestInput | ResponseOutput, kind: str) -> "pd.Series[Any]":
    if isinstance(tensor, RequestInput) and has_decoded(tensor):
        payload = get_decoded(tensor)
    else:
        payload = _column(tensor, kind)
    if isinstance(payload, np.ndarray):
        payload = payload.reshape(-1) if payload.dtype.kind != "O" else payload.reshape(-1).tolist()
    dtype: Any = object if tensor.datatype == "BYTES" else None
    series: pd.Series[Any] = pd.Series(payload, name=tensor.name, dtype=dtype)
    return series


def _column(tensor: RequestInput | ResponseOutput, kind: str) -> Any:
    name = tensor.parameters.content_type if tensor.parameters is not None else None
    if name == JSON_COLUMN:
        return decode_json_input_or_output(tensor)
    codec = find_input_codec(content_type=name) if name else None
    if codec is not None:
        return codec.decode_input(tensor) if isinstance(tensor, RequestInput) else codec.decode_output(tensor)
    return tensor.data.flat() if tensor.datatype == "BYTES" else decoded(tensor, kind)


def _to_fields(name: str, series: "pd.Series[Any]", use_bytes: bool) -> dict[str, Any]:
    if series.dtype.kind in "biuf" and isinstance(series.dtype, np.dtype):
        shape, datatype, data = encoded(series.to_numpy())
        return {"name": name, "shape": shape, "datatype": datatype, "data": data}
    if series.dtype.kind in "biuf":
        return _nullable_numbers(name, series)
    if series.dtype.kind == "M":
        texts: list[Any] = [None if value is pd.NaT else value.isoformat() for value in series]
        return _bytes_column(name, texts, use_bytes, "datetime")
    values: list[Any] = [
        None if value is None or value is pd.NA or value is np.nan else value for value in series
    ]
    if all(value is None or isinstance(value, str) for value in values):
        return _bytes_column(name, values, use_bytes, "str")
    if all(value is None or isinstance(value, bytes) for value in values):
        return _bytes_column(name, values, use_bytes, None)
    cells = [
        value if isinstance(value, (str, bytes)) else encode_to_json(value, use_bytes) for value in values
    ]
    return _bytes_column(name, cells, use_bytes, JSON_COLUMN)


def _nullable_numbers(name: str, series: "pd.Series[Any]") -> dict[str, Any]:
    """A column of pandas' own nullable dtypes: missing integers only fit a floating-point tensor."""
    array = (
        series.to_numpy(dtype="float64", na_value=np.nan)
        if series.hasnans
        else series.to_numpy(dtype=str(series.dtype).lower())
    )
    shape, datatype, data = encoded(array)
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def _bytes_column(name: str, values: list[Any], use_bytes: bool, content: str | None) -> dict[str, Any]:
    if use_bytes:
        values = [value.encode() if isinstance(value, str) else value for value in values]
    fields: dict[str, Any] = {
        "name": name,
        "shape": [len(values), 1],
        "datatype": "BYTES",
        "data": TensorData(values),
    }
    if content is not None:
        fields["parameters"] = Parameters.trusted({"content_type": content})
    return fields


@register_request_codec
class PandasCodec(RequestCodec):
    """A data frame to one tensor of shape [N, 1] per column."""

    ContentType = "pd"
    TypeHint = pd.DataFrame

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return isinstance(payload, pd.DataFrame)

    @classmethod
    def encode_outputs(cls, payload: pd.DataFrame, use_bytes: bool = True) -> list[ResponseOutput]:
        """One output per column."""
        return [
            ResponseOutput.trusted(_to_fields(str(name), payload[name], use_bytes))
            for name in payload.columns
        ]

    @classmethod
    def encode_response(
        cls,
        model_name: str,
        payload: pd.DataFrame,
        model_version: str | None = None,
        use_bytes: bool = True,
        **_: Any,
    ) -> InferenceResponse:
        return response_of(model_name, model_version, cls.encode_outputs(payload, use_bytes), cls.ContentType)

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> pd.DataFrame:
        return _frame([_to_series(tensor, "output") for tensor in response.outputs])

    @classmethod
    def encode_request(cls, payload: pd.DataFrame, use_bytes: bool = True, **_: Any) -> InferenceRequest:
        inputs = [
            RequestInput.trusted(_to_fields(str(name), payload[name], use_bytes)) for name in payload.columns
        ]
        return InferenceRequest.trusted({"parameters": content_type(cls.ContentType), "inputs": inputs})

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> pd.DataFrame:
        return _frame([_to_series(tensor, "input") for tensor in request.inputs])


def _frame(columns: "list[pd.Series[Any]]") -> pd.DataFrame:
    lengths = {str(column.name): len(column) for column in columns}
    if len(set(lengths.values())) > 1:
        raise CodecError(f"Columns of a data frame must be of one length, got {lengths}.")
    return pd.DataFrame({column.name: column for column in columns})
