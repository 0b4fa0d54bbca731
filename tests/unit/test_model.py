"""What authors subclass: the members MLServer's have, with its defaults."""

import inspect
from collections.abc import AsyncIterator

import numpy as np
import pytest

from inferstream import MLModel, ModelSettings
from inferstream.codecs import NumpyCodec, NumpyRequestCodec, StringCodec
from inferstream.errors import CodecNotFound, Unsupported
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
)

TENSOR = MetadataTensor(
    name="x", datatype="BYTES", shape=[-1, 1], parameters=Parameters(content_type="base64")
)
REQUEST = InferenceRequest(inputs=[NumpyCodec.encode_input("x", np.ones(2))])


class Answers(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=[])


class BlockingAnswers(MLModel):
    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=[])


def made(model: type[MLModel] = MLModel, **settings) -> MLModel:
    return model(ModelSettings(implementation=model, name="m", **settings))


async def two_requests() -> AsyncIterator[InferenceRequest]:
    for id in ("1", "2"):
        yield InferenceRequest(id=id, inputs=[])


async def test_bare_model_loads_unloads_and_refuses_inference() -> None:
    model = made()
    assert (model.ready, await model.load(), await model.unload()) == (False, True, True)
    with pytest.raises(Unsupported, match="Model m does not implement predict"):
        await model.predict(REQUEST)
    with pytest.raises(Unsupported):
        await anext(model.predict_stream(two_requests()))
    with pytest.raises(NotImplementedError):  # as model code for MLServer catches it
        await model.predict(REQUEST)


def test_name_and_version_come_from_settings() -> None:
    model = made(parameters={"version": "v1"})
    assert (model.name, model.version) == ("m", "v1")
    assert model.settings is model._settings
    assert made().version is None


@pytest.mark.parametrize("model", [Answers, BlockingAnswers])
async def test_default_stream_is_one_prediction_of_the_first_request(model: type[MLModel]) -> None:
    assert [response.id async for response in made(model).predict_stream(two_requests())] == ["1"]


async def test_metadata_comes_from_settings() -> None:
    model = made(
        platform="p", versions=["v1"], inputs=[TENSOR], outputs=[TENSOR], parameters={"content_type": "np"}
    )
    found = await model.metadata()
    assert (found.name, found.platform, found.versions) == ("m", "p", ["v1"])
    assert (found.inputs, found.outputs) == ([TENSOR], [TENSOR])
    assert found.parameters == Parameters(content_type="np")
    assert (await made().metadata()).parameters is None


async def test_tensors_declared_in_load_select_codecs_and_appear_in_metadata() -> None:
    model = made()
    text = RequestInput(name="x", shape=[1], datatype="BYTES", data=["YQ=="])
    assert model.decode(RequestInput(**text.model_dump()), StringCodec) == ["YQ=="]
    model.inputs = [TENSOR]
    model.outputs = [TENSOR]
    assert (model._inputs_index, model._outputs_index) == ({"x": TENSOR}, {"x": TENSOR})
    assert model.decode(text) == [b"a"]
    assert model.encode([b"a"], RequestOutput(name="x")).data.root == [b"YQ=="]
    assert (await model.metadata()).inputs == [TENSOR]


class Declares(Answers):
    inputs = [TENSOR]
    outputs = [TENSOR]


class Inherits(Declares):
    outputs = [TENSOR.model_copy(update={"name": "y"})]


async def test_class_attributes_declare_tensors() -> None:
    first, second = (
        Declares(ModelSettings(name="a", implementation="m.M")),
        Declares(ModelSettings(name="b", implementation="m.M")),
    )
    assert (await first.metadata()).inputs == [TENSOR]
    assert first.decode(RequestInput(name="x", shape=[1], datatype="BYTES", data=["YQ=="])) == [b"a"]
    first.inputs.clear()
    assert second.inputs == [TENSOR]
    heir = Inherits(
        ModelSettings(name="c", implementation="m.M", inputs=[TENSOR.model_copy(update={"name": "z"})])
    )
    assert [each.name for each in (*heir.inputs, *heir.outputs)] == ["z", "y"]


def test_request_codec_precedes_model_and_default_codecs() -> None:
    plain = InferenceRequest(inputs=[RequestInput(name="x", shape=[1], datatype="INT8", data=[1])])
    assert made().decode_request(plain) is plain
    assert made().decode_request(plain, NumpyRequestCodec).tolist() == [1]
    assert made(parameters={"content_type": "np"}).decode_request(REQUEST).tolist() == [[1], [1]]


def test_responses_have_model_name_and_version() -> None:
    model = made(parameters={"version": "v1"})
    response = model.encode_response(np.ones(2))
    assert (response.model_name, response.model_version) == ("m", "v1")
    with pytest.raises(CodecNotFound):
        model.encode_response({"a", "set"})
    with pytest.raises(CodecNotFound, match="'y'"):
        model.encode({"a", "set"}, RequestOutput(name="y"))


def test_overridable_methods_may_be_sync_or_async() -> None:
    assert inspect.iscoroutinefunction(MLModel.predict)
    assert inspect.isasyncgenfunction(MLModel.predict_stream)
