"""Requests for a load test, from a file or generated from the model's metadata."""

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from inferstream.errors import InvalidRequest, InvalidSettings
from inferstream.ext.hosting import V2Client
from inferstream.ext.values import DTYPES
from inferstream.types import InferenceRequest, MetadataModelResponse, RequestInput, TensorData

WORD = "hello"


def read_request_file(path: Path) -> InferenceRequest:
    """Read a V2 request from a JSON file. Raises InvalidSettings."""
    try:
        return V2Client.read_request(path.read_bytes())
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from error
    except (InvalidRequest, ValidationError) as error:
        raise InvalidSettings(f"{path}: {error}") from error


def generate_request(metadata: MetadataModelResponse, rows: int) -> InferenceRequest:
    """Generate a request with the declared shapes and datatypes.

    A variable first dimension becomes `rows`, and other variable dimensions become 1. Raises InvalidSettings
    if the model declares no inputs.
    """
    if not metadata.inputs:
        raise InvalidSettings(f"model {metadata.name} declares no inputs; give a request with --request FILE")
    random = np.random.default_rng(0)
    inputs = []
    for declared in metadata.inputs:
        shape = [
            rows if size < 0 and not index else max(size, 1) for index, size in enumerate(declared.shape)
        ]
        parameters = declared.parameters
        fields: dict[str, Any] = {
            "name": declared.name,
            "datatype": declared.datatype,
            "shape": shape,
            "data": _values(declared.datatype, shape, random),
        }
        if parameters is not None and parameters.content_type is not None:
            fields["parameters"] = {"content_type": parameters.content_type}
        inputs.append(RequestInput(**fields))
    return InferenceRequest(inputs=inputs)


def _values(datatype: str, shape: list[int], random: np.random.Generator) -> TensorData:
    size = int(np.prod(shape))
    if datatype == "BYTES":
        return TensorData([WORD] * size)
    dtype = DTYPES[datatype]
    if dtype.kind == "f":
        return TensorData(random.random(size).astype(dtype))
    return TensorData(random.integers(0, 2, size).astype(dtype))
