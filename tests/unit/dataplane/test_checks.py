"""Which tensors pass, and which of a model's outputs reach the client."""

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.call import INFER, Call
from inferstream.dataplane.checks import (
    Checks,
    Strictness,
    add_checks,
    choose_checks,
    fits,
    max_batch_size,
    resolve_strictness,
)
from inferstream.dataplane.counts import Counts
from inferstream.dataplane.json_limits import json_limits
from inferstream.dataplane.outputs import choose_finish
from inferstream.errors import InvalidRequest
from inferstream.plugins.mlserver.model import MLModel as MLServersModel
from inferstream.settings import Settings
from inferstream.signature import Signature
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)


def answered(selects: bool | None, *wanted: str) -> list[str]:
    """The names that are left when a model which answered `a` and `b` was asked for `wanted`."""
    outputs = [ResponseOutput(name=name, shape=[1], datatype="INT32", data=[1]) for name in ("a", "b")]
    request = InferenceRequest(inputs=[], outputs=[RequestOutput(name=name) for name in wanted])
    response = InferenceResponse(model_name="m", outputs=outputs)
    return [
        output.name for output in choose_finish("m", None, selects, [], "declared")(response, request).outputs
    ]


@pytest.mark.parametrize("selects", [False, None])
def test_requested_outputs_are_selected_in_order(selects: bool | None) -> None:
    assert answered(selects, "b") == ["b"]
    assert answered(selects, "b", "a") == ["b", "a"]


def test_missing_output_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'c' is not one of the model's outputs: a, b"):
        answered(False, "a", "c")


def test_outputs_of_model_with_unknown_selection_are_unchanged() -> None:
    assert answered(None, "a", "c") == ["a", "b"]


def test_outputs_of_selecting_model_are_unchanged() -> None:
    assert answered(True, "a") == ["a", "b"]


def declared(strictness: Strictness) -> Checks:
    return choose_checks(Signature(), strictness)


def texts(shape: list[int], data: object) -> InferenceRequest:
    return InferenceRequest(inputs=[RequestInput(name="x", shape=shape, datatype="BYTES", data=data)])


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([5], ["hello"]),
        ([5], "hello"),
        ([1, 5], [b"hello"]),
        ([11], ["hello world 😁"]),
        ([2, 5], ["hello", "you"]),
        ([8, 8], "01" * 32),
    ],
)
def test_shape_may_be_string_length(shape: list[int], data: object) -> None:
    request = texts(shape, data)
    declared("declared").check(request)
    assert request.inputs[0].shape == shape
    assert not declared("declared").counts_rows(request.inputs[0])
    with pytest.raises(InvalidRequest):
        declared("strict").check(request)


@pytest.mark.parametrize(
    ("shape", "data"), [([2], ["a"]), ([3], ["a", "b"]), ([2, 9], ["a", "b"]), ([2], []), ([2], [None])]
)
def test_shape_without_matching_data_is_refused(shape: list[int], data: list) -> None:
    with pytest.raises(InvalidRequest, match="needs"):
        declared("declared").check(texts(shape, data))


def test_response_text_gets_its_actual_shape() -> None:
    output = ResponseOutput(name="y", shape=[5], datatype="BYTES", data=[b"hello"])
    response = InferenceResponse(model_name="m", outputs=[output])
    finish = choose_finish("m", None, False, [], "declared")
    assert finish(response, InferenceRequest(inputs=[])).outputs[0].shape == [1]


@pytest.mark.parametrize(
    ("shape", "declared", "loosely", "strictly"),
    [
        ([2], [-1, 1], True, False),
        ([1], [-1, 1], True, False),
        ([1], [-1, 1, 1], True, False),
        ([1, 1, 1], [-1], True, False),
        ([], [1], True, False),
        ([5, 2], [2], True, False),
        ([3], [-1, 3], False, False),
        ([1], [-1, 3], False, False),
        ([2, 1], [-1, 1], True, True),
        ([2, 2], [-1, 1], False, False),
    ],
)
def test_trailing_ones_and_batch_dimension_are_accepted_unless_strict(
    shape: list[int], declared: list[int], loosely: bool, strictly: bool
) -> None:
    assert fits(shape, declared, strict=False) is loosely
    assert fits(shape, declared, strict=True) is strictly


class Ours(MLModel):
    pass


class Theirs(MLServersModel):
    pass


@pytest.mark.parametrize(
    ("model", "implementation", "expected"),
    [
        (Ours, "a.Ours", "declared"),
        (Theirs, "a.Theirs", "off"),
        (Ours, "mlserver_sklearn.SKLearnModel", "off"),
        (Ours, "inferstream.plugins.frameworks.sklearn.SKLearnModel", "declared"),
    ],
)
def test_auto_validation_is_off_for_mlserver_models(
    model: type[MLModel], implementation: str, expected: str
) -> None:
    settings = ModelSettings(implementation=implementation)
    assert resolve_strictness(settings, model.for_mlserver) == expected
    for chosen in ("declared", "strict", "off"):
        settings = ModelSettings(implementation=implementation, input_validation=chosen)
        assert resolve_strictness(settings, model.for_mlserver) == chosen


def test_triton_folder_is_strictly_validated() -> None:
    settings = ModelSettings(implementation="a.B", parameters={"model_configuration": {"backend": "python"}})
    assert resolve_strictness(settings, for_mlserver=False) == "strict"
    settings.input_validation = "declared"
    assert resolve_strictness(settings, for_mlserver=False) == "declared"


def test_triton_batch_has_a_limit_and_equal_row_counts() -> None:
    settings = ModelSettings(implementation="a.B", parameters={"model_configuration": {"max_batch_size": 2}})
    assert max_batch_size(settings) == 2
    inputs = [MetadataTensor(name=name, datatype="INT32", shape=[-1, 1]) for name in "xy"]
    checks = choose_checks(Signature((*inputs,)), "strict", max_batch_size(settings))

    def rows(*counts: int) -> InferenceRequest:
        tensors = [
            RequestInput(name=name, shape=[count, 1], datatype="INT32", data=[1] * count)
            for name, count in zip("xy", counts, strict=False)
        ]
        return InferenceRequest(inputs=tensors)

    checks.check(rows(2, 2))
    assert checks.counts_rows(rows(1).inputs[0])
    for request, reason in (
        (rows(3, 3), r'"x" has 3 rows; the model takes 2 \(max_batch_size\)'),
        (rows(2, 1), 'input "y" has 1 rows, and "x" has 2'),
        (rows(2), '"y" is missing'),
    ):
        with pytest.raises(InvalidRequest, match=reason):
            checks.check(request)
    choose_checks(Signature((*inputs,)), "declared", 2).check(rows(3, 3))


def test_lenient_is_an_alias_for_declared() -> None:
    assert ModelSettings(implementation="a.B", input_validation="lenient").input_validation == "declared"


def test_undeclared_inputs_are_only_checked_for_safety() -> None:
    checks = declared("off")
    checks.check(texts([7, 9], ["a", 1, None]))
    for request, message in (
        (texts([-1], ["a"]), "not a size"),
        (texts([1] * 40, ["a"]), "40 dimensions"),
        (InferenceRequest(inputs=texts([1], ["a"]).inputs * 2), "given twice"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            checks.check(request)


ANNOTATED = Signature(
    (MetadataTensor(name="x", datatype="FP32", shape=[-1]),),
    (MetadataTensor(name="output-0", datatype="FP32", shape=[-1]),),
    inputs_annotated=True,
    outputs_annotated=True,
)


def numbers(name: str = "x", datatype: str = "FP32", **more: object) -> InferenceRequest:
    tensor = RequestInput(name=name, shape=[2, 1, 1], datatype=datatype, data=[1, 2])
    return InferenceRequest(inputs=[tensor], **more)


@pytest.mark.parametrize("strictness", ["declared", "off"])
@pytest.mark.parametrize(
    "request_", [numbers("other"), numbers(datatype="INT8"), InferenceRequest(inputs=[])]
)
def test_requests_are_not_checked_against_annotations(
    strictness: Strictness, request_: InferenceRequest
) -> None:
    choose_checks(ANNOTATED, strictness).check(request_)


def test_strict_checks_names_and_datatypes_of_annotations() -> None:
    checks = choose_checks(ANNOTATED, "strict")
    checks.check(numbers())  # codecs take any shape
    assert checks.counts_rows(numbers().inputs[0])
    checks.check(numbers(outputs=[RequestOutput(name="any")]))  # which only the model knows
    for request_, reason in (
        (numbers("other"), "not one of"),
        (numbers(datatype="INT8"), "takes FP32, got INT8"),
        (InferenceRequest(inputs=[]), '"x" is missing'),
    ):
        with pytest.raises(InvalidRequest, match=reason):
            checks.check(request_)


@pytest.mark.parametrize("strictness", ["declared", "strict", "off"])
@pytest.mark.parametrize("place", ["input", "output"])
def test_request_with_unresolved_data_is_refused(strictness: Strictness, place: str) -> None:
    def inner(call: Call) -> str:
        return "reply"

    signature = Signature(
        inputs=[MetadataTensor(name="x", datatype="INT32", shape=[-1])],
        outputs=[MetadataTensor(name="y", datatype="INT32", shape=[-1])],
    )
    counts = Counts(json_limits(Settings()), signature, frozenset())
    handle = add_checks(inner, choose_checks(signature, strictness), counts)
    there = RequestInput(name="x", shape=[1], datatype="INT32", data=[1])
    empty = RequestInput(name="x", shape=[0], datatype="INT32", data=[])
    request = InferenceRequest(
        inputs=[empty if place == "input" else there], outputs=[RequestOutput(name="y")]
    )
    call = Call(INFER, "m", None, request, {})
    request.references = ("shared_memory_region",)
    with pytest.raises(InvalidRequest, match="Tensors in shared memory are for single requests of V2"):
        handle(call)
    request.resolve("other")
    with pytest.raises(InvalidRequest, match="Tensors in shared memory are for single requests of V2"):
        handle(call)
    request.resolve("shared_memory_region")
    assert handle(call) == "reply"
