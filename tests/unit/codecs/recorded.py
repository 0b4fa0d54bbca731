"""Payloads and what codecs make of them, as JSON can hold them; knows no codec."""

import base64
import math
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd


def told(value: Any) -> Any:
    """A value as JSON holds it, with the types that JSON has not."""
    if isinstance(value, np.ndarray):
        return {"array": told(value.tolist()), "dtype": kind_of(value.dtype), "shape": list(value.shape)}
    if isinstance(value, pd.DataFrame):
        columns = {name: told(value[name].tolist()) for name in value.columns}
        return {"frame": columns, "numbers": [name for name in value if value[name].dtype.kind in "biuf"]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, dict):
        return {name: told(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(item) for item in value]
    return value


def kind_of(dtype: "np.dtype[Any]") -> str:
    """A dtype without its width where that only is the longest value's."""
    return dtype.kind if dtype.kind in "USO" else dtype.name


def meant(told: Any) -> Any:
    """The value that was told."""
    if isinstance(told, list):
        return [meant(item) for item in told]
    if not isinstance(told, dict):
        return told
    if "array" in told:
        return np.array(meant(told["array"]), dtype=told["dtype"]).reshape(told["shape"])
    if "series" in told:
        return pd.DataFrame(
            {name: pd.Series(meant(values), dtype=dtype) for name, (dtype, values) in told["series"].items()}
        )
    if "bytes" in told:
        return base64.b64decode(told["bytes"])
    if "time" in told:
        return datetime.fromisoformat(told["time"])
    if "float" in told:
        return float(told["float"])
    return {name: meant(item) for name, item in told.items()}
