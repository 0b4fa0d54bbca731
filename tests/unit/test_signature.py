"""A model's signature: what it declares wins over what its annotations say."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferstream import MLModel, ModelSettings, StepModel
from inferstream.codecs import NumpyCodec, decode_args
from inferstream.compat.mlserver.model import MLModel as MLServersModel
from inferstream.model import signature_of
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
async def test_metadata_of_a_model_that_declares_nothing_is_what_its_annotations_say(
    model: type[MLModel],
) -> None:
    metadata = await made(model).metadata()
    assert [(tensor.name, tensor.datatype, tensor.shape) for tensor in metadata.inputs] == [
        ("x", "BYTES", [-1, 1])
    ]
    assert names(metadata.outputs) == ["output-0"]
    found = signature_of(made(model))
    assert (names(found.inputs), names(found.outputs)) == (["x"], ["output-0"])
    assert (found.declared_inputs, found.declared_outputs) == ((), ())


async def test_settings_win_over_annotations_each_side_for_itself() -> None:
    model = made(Typed, inputs=[X])
    found = signature_of(model)
    assert (model.inputs, names(model.outputs)) == ([X], ["output-0"])
    assert (found.declared_inputs, found.declared_outputs) == ((X,), ())


def test_settings_that_say_what_annotations_say_are_a_declaration() -> None:
    same = made(Typed).inputs
    assert signature_of(made(Typed, inputs=same)).declared_inputs == tuple(same)


@pytest.mark.parametrize("attribute", ["inputs", "_inputs"])
async def test_what_load_assigns_wins_over_annotations(attribute: str) -> None:
    model = made(Typed)
    setattr(model, attribute, [X])
    assert (await model.metadata()).inputs == [X]
    assert signature_of(model).declared_inputs == (X,)
    assert names(made(Typed).inputs) == ["x"]


async def test_what_a_subclass_overrides_wins_over_annotations() -> None:
    class Overriding(Typed):
        @property
        def inputs(self) -> list[MetadataTensor]:
            return [X]

        @inputs.setter
        def inputs(self, tensors: list[MetadataTensor]) -> None:
            pass

    assert (await made(Overriding).metadata()).inputs == [X]
    assert signature_of(made(Overriding)).declared_inputs == (X,)


def test_models_of_a_class_do_not_share_what_they_may_change() -> None:
    one = made(Typed)
    one.inputs[0].shape.append(7)
    one.inputs.append(X)
    assert [tensor.shape for tensor in made(Typed).inputs] == [[-1, 1]]


def test_an_annotation_chooses_no_codec_in_code_that_decodes_by_itself() -> None:
    tensor = RequestInput(name="x", shape=[1], datatype="INT8", data=[1])
    assert made(Typed).decode(tensor, NumpyCodec).tolist() == [1]


def test_where_methods_disagree_or_say_nothing_a_side_is_unknown() -> None:
    both = signature_of(made(Both))
    assert (names(both.inputs), both.outputs, both.streams) == (["x"], None, True)
    half = signature_of(made(HalfDecorated))
    assert (half.inputs, half.outputs, half.streams) == (None, None, True)
    assert signature_of(made(Plain)) == Signature(doc="Answers nothing.")
    assert signature_of(made(Steps)).streams
    assert made(Plain).inputs == []


def test_the_method_or_else_the_class_is_described() -> None:
    assert signature_of(made(Typed)).doc == "Counts letters."
    assert signature_of(made(Both)).doc == ""


@pytest.mark.parametrize("model", [Typed, Plain, Both])
def test_a_signature_travels_as_json(model: type[MLModel]) -> None:
    found = signature_of(made(model))
    assert SIGNATURE.validate_json(SIGNATURE.dump_json(found)) == found
