"""Bodies that several faces send."""

from typing import Any


def tensor(name: str, datatype: str, data: Any, shape: list | None = None, **more: Any) -> dict:
    found = {"name": name, "datatype": datatype, "shape": [len(data)] if shape is None else shape}
    return {**found, "data": data, **more}


def numbers(*values: float, **more: Any) -> dict:
    return {"id": "i", **more, "inputs": [tensor("x", "FP32", list(values or (1.0, 2.5)))]}


def text(value: str = "hi", **more: Any) -> dict:
    return {"id": "i", **more, "inputs": [tensor("text", "BYTES", [value])]}


def asking(**parameters: Any) -> dict:
    return text(parameters=parameters)


def mode(word: str) -> dict:
    return asking(mode=word)


V2 = "/v2/models"
