"""Models of named tensors, loaded by their runtimes, and asked."""

from pathlib import Path
from typing import Any

import numpy as np

from inferstream import ModelSettings
from inferstream.plugins.frameworks.tensors import TensorModel
from inferstream.types import InferenceRequest, RequestInput, RequestOutput


async def loaded(
    kind: type[TensorModel], path: Path, settings: dict[str, Any] | None = None, **extra: Any
) -> Any:
    parameters = {"version": "1", "uri": str(path), "extra": extra}
    model = kind(ModelSettings(name="m", implementation=kind, parameters=parameters, **(settings or {})))
    assert await model.load() is True
    return model


def tensor(name: str, datatype: str, values: Any) -> RequestInput:
    array = np.array(values)
    return RequestInput(
        name=name, datatype=datatype, shape=list(array.shape), data=array.reshape(-1).tolist()
    )


def asked(model: TensorModel, *inputs: RequestInput, outputs: tuple[str, ...] = ()) -> dict[str, Any]:
    wanted = [RequestOutput(name=name) for name in outputs] or None
    response = model.predict(InferenceRequest(inputs=[*inputs], outputs=wanted))
    assert (response.model_name, response.model_version) == ("m", "1")
    return {
        output.name: (output.datatype, output.data.to_numpy(output.datatype, output.shape))
        if output.datatype != "BYTES"
        else (output.datatype, output.data.flat())
        for output in response.outputs
    }
