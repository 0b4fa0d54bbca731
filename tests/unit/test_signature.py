"""A model's signature: what it declares wins over what its annotations say."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferstream import MLModel, ModelSettings, StepModel
from inferstream.codecs import NumpyCodec, decode_args
from inferstream.model import resolve_signature
from inferstream.plugins.mlserver.model import MLModel as MLServersModel
from inferstream.signature import SIGNATURE, Signature
from inferstream.types import InferenceRequest, InferenceResponse, MetadataTensor, RequestInput

X = MetadataTensor(name="x", datatype="FP64", shape=[3])


class Typed(MLModel):
    @decode_args
    async def predict(self, x: list[str]) -> NDArray[np.float32]:
        """Counts letters."""
        return np.float32([len(text) for text in x])


class Plain(MLModel):
    """Answers nothing."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[])


class Both(MLModel):
    @decode_args
    def predict(self, x: list[str]) -> list[str]:
        return x

    @decode_args
    async def predict_stream(self, x: list[str]) -> AsyncIterator[NDArray[np.float32]]:
        yield np.float32([len(x)])


class HalfDecorated(Typed):
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[Any]:
        async for payload in payloads:
            yield InferenceResponse(model_name=self.name, outputs=[], id=payload.id)


class Steps(StepModel):
    def admit(self, request: InferenceRequest) -> int:
        return 0

    def step(self, states: Any) -> Any:
        return [None for _ in states]


class FromMLServer(MLServersModel):
    @decode_args
    async def predict(self, x: list[str]) -> list[str]:
        return x


def made(model: type[MLModel], **settings: Any) -> MLModel:
    return model(ModelSettings(implementation=model, name="m", **settings))


def names(tensors: Any) -> list[str] | None:
    return None if tensors is None else [tensor.name for tensor in tensors]


@pytest.mark.parametrize("model", [Typed, FromMLServer])
async def test_undeclared_model_metadata_comes_from_annotations(
    model: type[MLModel],
) -> None:
    metadata = await made(model).metadata()
    assert [(tensor.name, tensor.datatype, tensor.shape) for tensor in metadata.inputs] == [
        ("x", "BYTES", [-1, 1])
    ]
    assert names(metadata.outputs) == ["output-0"]
    found = resolve_signature(made(model))
    assert (names(found.inputs), names(found.outputs)) == (["x"], ["output-0"])
    assert (found.declared_inputs, found.declared_outputs) == ((), ())


async def test_settings_override_annotations_per_side() -> None:
    model = made(Typed, inputs=[X])
    found = resolve_signature(model)
    assert (model.inputs, names(model.outputs)) == ([X], ["output-0"])
    assert (found.declared_inputs, found.declared_outputs) == ((X,), ())


def test_settings_equal_to_annotations_are_a_declaration() -> None:
    same = made(Typed).inputs
    assert resolve_signature(made(Typed, inputs=same)).declared_inputs == tuple(same)


@pytest.mark.parametrize("attribute", ["inputs", "_inputs"])
async def test_load_assignments_override_annotations(attribute: str) -> None:
    model = made(Typed)
    setattr(model, attribute, [X])
    assert (await model.metadata()).inputs == [X]
    assert resolve_signature(model).declared_inputs == (X,)
    assert names(made(Typed).inputs) == ["x"]


async def test_subclass_overrides_annotations() -> None:
    class Overriding(Typed):
        @property
        def inputs(self) -> list[MetadataTensor]:
            return [X]

        @inputs.setter
        def inputs(self, tensors: list[MetadataTensor]) -> None:
            pass

    assert (await made(Overriding).metadata()).inputs == [X]
    assert resolve_signature(made(Overriding)).declared_inputs == (X,)


def test_models_of_a_class_share_no_mutable_state() -> None:
    one = made(Typed)
    one.inputs[0].shape.append(7)
    one.inputs.append(X)
    assert [tensor.shape for tensor in made(Typed).inputs] == [[-1, 1]]


def test_annotation_selects_no_codec_for_manual_decoding() -> None:
    tensor = RequestInput(name="x", shape=[1], datatype="INT8", data=[1])
    assert made(Typed).decode(tensor, NumpyCodec).tolist() == [1]


def test_side_is_unknown_if_methods_disagree_or_are_undeclared() -> None:
    both = resolve_signature(made(Both))
    assert (names(both.inputs), both.outputs, both.streams) == (["x"], None, True)
    half = resolve_signature(made(HalfDecorated))
    assert (half.inputs, half.outputs, half.streams) == (None, None, True)
    assert resolve_signature(made(Plain)) == Signature(doc="Answers nothing.")
    assert resolve_signature(made(Steps)).streams
    assert made(Plain).inputs == []


def test_description_is_the_method_or_class_docstring() -> None:
    assert resolve_signature(made(Typed)).doc == "Counts letters."
    assert resolve_signature(made(Both)).doc == ""


@pytest.mark.parametrize("model", [Typed, Plain, Both])
def test_signature_round_trips_as_json(model: type[MLModel]) -> None:
    found = resolve_signature(made(model))
    assert SIGNATURE.validate_json(SIGNATURE.dump_json(found)) == found
