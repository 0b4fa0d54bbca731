"""Converts tensors to pipeline arguments, and results to tensors, with MLServer content types."""

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from inferstream import NumpyCodec, StringCodec
from inferstream.codecs import InputCodec, get_decoded, has_decoded
from inferstream.errors import CodecError
from inferstream.ext.values import encode_json, open_image
from inferstream.types import InferenceRequest, Parameters, RequestInput, ResponseOutput, TensorData

IMAGE = "data:image/"
LISTS = "hg_jsonlist"


def decode_arguments(request: InferenceRequest) -> dict[str, Any]:
    """Decode the inputs of a request by name. The default content type is the request's, otherwise a string.

    Raises CodecError naming the input.
    """
    general = request.parameters.content_type if request.parameters is not None else None
    return {tensor.name: _decode(tensor, general) for tensor in request.inputs}


def _decode(tensor: RequestInput, general: str | None) -> Any:
    if has_decoded(tensor):
        return get_decoded(tensor)
    own = tensor.parameters.content_type if tensor.parameters is not None else None
    for name in filter(None, (own, general)):
        if name in DECODERS:
            try:
                return DECODERS[name](tensor)
            except (OSError, TypeError, ValueError, IndexError, RecursionError) as error:
                raise CodecError(f'input "{tensor.name}": not "{name}": {error}') from error
        if (codec := InputCodec.find(content_type=name)) is not None:
            return codec.decode_input(tensor)
    return StringCodec.decode_input(tensor)


def _objects(tensor: RequestInput) -> list[Any]:
    return [_with_images(json.loads(element)) for element in tensor.data.flat()]


def _raw(tensor: RequestInput) -> Any:
    value = tensor.data.flat()[0]
    return value.decode() if isinstance(value, bytes) else value


DECODERS: dict[str, Callable[[RequestInput], Any]] = {
    "hg_json": lambda tensor: _objects(tensor)[0],
    LISTS: _objects,
    "raw": _raw,
    "nplist": lambda tensor: list(NumpyCodec.decode_input(tensor)),
    "pillow_image": lambda tensor: [_image(element) for element in tensor.data.flat()],
}


def _with_images(value: Any) -> Any:
    """Replace data URLs in a JSON value with images."""
    if isinstance(value, dict):
        return {name: _with_images(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_images(each) for each in value]
    if isinstance(value, str) and value.startswith(IMAGE):
        return _image(value.partition(",")[2])
    return value


def _image(encoded: str | bytes) -> Any:
    try:
        return open_image(base64.b64decode(encoded))
    except ModuleNotFoundError as error:
        raise ValueError("images need pillow: pip install pillow") from error


def encode_results(results: list[Any]) -> ResponseOutput:
    """Encode each result as JSON in the output tensor. Raises CodecError if that fails."""
    try:
        elements = [json.dumps(result, cls=_Encoder).encode() for result in results]
    except (TypeError, ValueError) as error:
        raise CodecError(f'output "output": {error}', True) from error
    shape = [len(elements), 1]
    return ResponseOutput.of("output", shape, "BYTES", TensorData(elements), Parameters.of(None, LISTS))


class _Encoder(json.JSONEncoder):
    """Writes images as data URLs, arrays and tensors as lists, and bytes as UTF-8 strings."""

    def default(self, obj: Any) -> Any:
        if hasattr(obj, "save") and hasattr(obj, "getbbox"):
            buffer = io.BytesIO()
            kind = obj.format or "PNG"
            obj.save(buffer, format=kind)
            return f"{IMAGE}{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"
        if hasattr(obj, "numpy"):
            return np.asarray(obj.numpy()).tolist()
        if isinstance(obj, np.ndarray | np.generic) and obj.dtype.kind in "biuf":
            return obj.tolist()
        return json.loads(encode_json(obj, text_bytes=True))
