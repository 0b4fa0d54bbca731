"""pandas data frames, content type `pd`. Imported only when data frames are used."""

from math import prod
from typing import Any

import numpy as np

from ..errors import CodecError, MissingExtra
from ..types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput, TensorData
from ..types.json_encoding import encode
from ..types.tensors import AnyTensor
from .base import RequestCodec, build_response, content_type
from .decoded_cache import get_decoded, has_decoded
from .json import JSONCodec
from .numpy import decoded, encoded
from .registry import find_input_codec, register_request_codec

try:
    import pandas as pd
except ModuleNotFoundError as missing:
    raise MissingExtra('the content type "pd"', "pandas", missing) from None


def _to_series(tensor: RequestInput | ResponseOutput) -> "pd.Series[Any]":
    payload = get_decoded(tensor) if has_decoded(tensor) else _payload(tensor)
    if isinstance(payload, np.ndarray):
        payload = payload.reshape(-1) if payload.dtype.kind != "O" else payload.reshape(-1).tolist()
    series: pd.Series[Any] = pd.Series(payload, name=tensor.name)
    return series


def _payload(tensor: RequestInput | ResponseOutput) -> Any:
    name = tensor.parameters.content_type if tensor.parameters is not None else None
    if name == PandasCodec.JsonContentType:
        return JSONCodec.decode_tensor(tensor)
    codec = find_input_codec(content_type=name)
    if codec is not None:
        return codec.decode_input(tensor) if isinstance(tensor, RequestInput) else codec.decode_output(tensor)
    return _cells(tensor) if tensor.datatype == "BYTES" else decoded(tensor, isinstance(tensor, RequestInput))


def _cells(tensor: RequestInput | ResponseOutput) -> list[Any]:
    """Return the values of a BYTES column. If nested lists do not match the shape, each list is one value."""
    data, shape = tensor.data.peek(), tensor.shape
    by_row = isinstance(data, list) and len(shape) > 0 and len(data) == shape[0]
    if by_row and len(shape) == 1:
        return list(data)
    try:
        values = tensor.data.flat()
    except ValueError as error:
        if by_row:
            return list(data)
        raise CodecError(f'{tensor.what} "{tensor.name}": {error}') from None
    return list(data) if by_row and len(values) != prod(shape) else values


def _columns(kind: type[AnyTensor], frame: pd.DataFrame, use_bytes: bool) -> list[AnyTensor]:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CodecError(
            f'{kind.what} "{twice}": the data frame has more than one column of this name',
            kind is ResponseOutput,
        )
    return [_column(kind, name, frame.iloc[:, position], use_bytes) for position, name in enumerate(names)]


def _column(kind: type[AnyTensor], name: str, series: "pd.Series[Any]", use_bytes: bool) -> AnyTensor:
    if series.dtype.kind in "biufc":
        return encoded(kind, name, _numbers(series))
    values: list[Any] = [None if _is_missing(value) else value for value in series]
    content: str | None = None
    if series.dtype.kind == "M":
        content = "datetime"
        values = [None if value is None else value.isoformat() for value in values]
    elif all(value is None or isinstance(value, str) for value in values):
        content = "str"
    elif not all(value is None or isinstance(value, bytes) for value in values):
        content = PandasCodec.JsonContentType
        try:
            values = [encode(value, text_bytes=True) for value in values]
        except (TypeError, ValueError) as error:
            raise CodecError(f'{kind.what} "{name}": {error}', kind is ResponseOutput) from None
    if use_bytes:
        values = [value.encode() if isinstance(value, str) else value for value in values]
    elif content is not None:
        values = [value.decode() if isinstance(value, bytes) else value for value in values]
    parameters = None if content is None else content_type(content)
    return kind.of(name, [len(values), 1], "BYTES", TensorData(values), parameters)


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _numbers(series: "pd.Series[Any]") -> "np.ndarray[Any, np.dtype[Any]]":
    """Return the values of a numeric column. Missing integers in nullable dtypes become NaN."""
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    if series.hasnans:
        return series.to_numpy(dtype="float64", na_value=np.nan)
    inner = getattr(series.dtype, "numpy_dtype", None) or getattr(series.dtype, "subtype", None)
    return series.to_numpy(dtype=inner)


@register_request_codec
class PandasCodec(RequestCodec):
    """Converts between a data frame and one tensor of shape [N, 1] per column."""

    ContentType = "pd"
    TypeHint = pd.DataFrame

    JsonContentType = "pd_json"
    """The content type of a column of Python objects encoded as JSON."""

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return isinstance(payload, pd.DataFrame)

    @classmethod
    def encode_outputs(cls, payload: pd.DataFrame, use_bytes: bool = True) -> list[ResponseOutput]:
        """Encode each column as an output."""
        return _columns(ResponseOutput, payload, use_bytes)

    @classmethod
    def encode_response(
        cls,
        model_name: str,
        payload: pd.DataFrame,
        model_version: str | None = None,
        use_bytes: bool = True,
        **_: Any,
    ) -> InferenceResponse:
        return build_response(
            model_name, model_version, cls.encode_outputs(payload, use_bytes), cls.ContentType
        )

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> pd.DataFrame:
        return _frame([_to_series(tensor) for tensor in response.outputs])

    @classmethod
    def encode_request(cls, payload: pd.DataFrame, use_bytes: bool = True, **_: Any) -> InferenceRequest:
        inputs = _columns(RequestInput, payload, use_bytes)
        return InferenceRequest.of(inputs, None, content_type(cls.ContentType))

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> pd.DataFrame:
        return _frame([_to_series(tensor) for tensor in request.inputs])


def _frame(columns: "list[pd.Series[Any]]") -> pd.DataFrame:
    lengths = {str(column.name): len(column) for column in columns}
    if len(set(lengths.values())) > 1:
        raise CodecError(f"Columns of a data frame must be of one length, got {lengths}.")
    return pd.DataFrame({column.name: column for column in columns})
