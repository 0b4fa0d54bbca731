"""Fitted models, loaded by their runtimes."""

from pathlib import Path
from typing import Any

from inferstream import ModelSettings
from inferstream.codecs import NumpyCodec, NumpyRequestCodec
from inferstream.ext.runtimes import Runtime
from inferstream.plugins.frameworks.lightgbm import LightGBMModel
from inferstream.plugins.frameworks.sklearn import SKLearnModel
from inferstream.plugins.frameworks.xgboost import XGBoostModel
from inferstream.types import InferenceRequest, InferenceResponse, RequestOutput
from tests.artefacts import models


async def loaded(runtime: type[Runtime], uri: Path | None, **extra: Any) -> Runtime:
    parameters = {"version": "1", "extra": extra, **({"uri": str(uri)} if uri else {})}
    model = runtime(ModelSettings(name="m", implementation=runtime, parameters=parameters))
    assert await model.load() is True
    return model


async def fitted(model: Any, folder: Path, **extra: Any) -> Runtime:
    return await loaded(SKLearnModel, models.dumped(model, folder), **extra)


def asked(payload: Any, *outputs: str, codec: Any = NumpyRequestCodec) -> InferenceRequest:
    request = codec.encode_request(payload)
    request.outputs = [RequestOutput(name=name) for name in outputs] or None
    return request


def arrays(response: InferenceResponse) -> dict[str, Any]:
    return {output.name: NumpyCodec.decode_output(output) for output in response.outputs}


async def of_kind(kind: str, folder: Path) -> Runtime:
    if kind == "sklearn":
        return await fitted(models.classifier(), folder)
    if kind == "xgboost":
        return await loaded(XGBoostModel, models.boosted("XGBClassifier", folder, "model.json"))
    return await loaded(LightGBMModel, models.light(folder))
