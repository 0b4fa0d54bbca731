"""The types behave as MLServer's do: dumps, older calls, null, extra parameters."""

import copy
import inspect
import json
import pickle
import weakref
from abc import ABC
from functools import singledispatch
from typing import Generic, TypeVar

import fastapi
import pydantic
import pytest
from fastapi.encoders import jsonable_encoder
from fastapi.testclient import TestClient

from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
    TensorData,
)
from inferstream.types.base import BaseModel

Model = TypeVar("Model", bound=pydantic.BaseModel)

TENSOR = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}


def test_checked_instances_match_validated_ones() -> None:
    made = RequestInput.of(**{**TENSOR, "data": RequestInput(**TENSOR).data})
    assert made == RequestInput(**TENSOR)
    assert made.model_dump() == TENSOR
    assert made.parameters is None


PARAMETERS = Parameters.of(None, "str")

MADE = {
    "parameters": (PARAMETERS, Parameters(content_type="str")),
    "extra parameters": (
        Parameters.of({"more": [1]}),
        Parameters(content_type=None, more=[1]),
    ),
    "tensor": (
        ResponseOutput.of("x", [1], "FP32", TensorData([1.0]), PARAMETERS),
        ResponseOutput(**TENSOR, parameters=Parameters(content_type="str")),
    ),
    "request": (
        InferenceRequest.of([], "1"),
        InferenceRequest(id="1", parameters=None, inputs=[]),
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_constructed_instances_match_validated_ones(kind: str) -> None:
    filled, validated = MADE[kind]
    for made in (
        filled,
        copy.copy(filled),
        copy.deepcopy(filled),
        filled.model_copy(deep=True),
        pickle.loads(pickle.dumps(filled)),  # its own bytes
        type(filled).model_validate(filled),
    ):
        assert made == validated
        assert validated == made
        assert repr(made) == repr(validated)
        assert made.model_dump() == validated.model_dump()
        assert made.model_dump_json() == validated.model_dump_json()
        assert made.dict() == validated.dict()
        assert (made.model_extra or None) == (validated.model_extra or None)
        assert made.__pydantic_private__ is None


@pytest.mark.parametrize(
    "read",
    [
        lambda made: made.model_fields_set,
        lambda made: made.model_dump().keys(),
        lambda made: json.loads(made.model_dump_json()).keys(),
        lambda made: InferenceResponse(model_name="m", outputs=[made]).model_dump()["outputs"][0].keys(),
        lambda made: copy.copy(made).model_fields_set,
        lambda made: copy.deepcopy(made).model_fields_set,
        lambda made: made.model_copy(update={"name": "y"}).model_fields_set,
        lambda made: pickle.loads(pickle.dumps(made)).model_fields_set,  # its own bytes
    ],
)
def test_set_fields_are_known_however_the_instance_is_read(read) -> None:
    made = ResponseOutput.of("x", [1], "FP32", TensorData([1.0]))
    assert read(made) == {"name", "shape", "datatype", "data"}
    made.parameters = Parameters()
    assert made.model_fields_set == {"name", "shape", "datatype", "data", "parameters"}
    assert read(made) >= {"name", "parameters"}


def test_assigned_none_counts_as_set() -> None:
    made = Parameters.of(None, "str")
    made.headers = None
    assert made.model_fields_set == {"content_type", "headers"}


def test_instances_have_no_other_attributes() -> None:
    filled, _ = MADE["tensor"]
    with pytest.raises(AttributeError, match="unknown"):
        filled.unknown  # noqa: B018
    assert not hasattr(filled, "__pydantic_unknown__")
    filled.name = "other"
    assert filled.model_copy(update={"shape": [2]}).model_dump()["name"] == "other"


class Holder(pydantic.BaseModel):
    """A model of a user with payloads in its fields."""

    request: InferenceRequest
    outputs: list[ResponseOutput] = []


def test_payloads_can_be_model_fields() -> None:
    request = InferenceRequest(id="1", inputs=[RequestInput(**TENSOR)])
    holder = Holder(request={"id": "1", "inputs": [TENSOR]}, outputs=[{**TENSOR, "parameters": {"a": 1}}])
    assert holder.request == request
    assert Holder(request=request).request is request
    assert holder.model_dump(exclude_none=True)["request"] == request.model_dump()
    assert Holder.model_validate_json(holder.model_dump_json()) == holder
    assert set(Holder.model_json_schema()["$defs"]) >= {"InferenceRequest", "RequestInput", "ResponseOutput"}
    with pytest.raises(pydantic.ValidationError, match=r"request\.inputs\.0\.data\n  Field required"):
        Holder(request={"inputs": [{"name": "x", "shape": [1], "datatype": "FP32"}]})


def test_fastapi_reads_and_writes_payloads() -> None:
    app = fastapi.FastAPI()

    @app.post("/")
    async def route(payload: InferenceRequest) -> InferenceResponse:
        outputs = [ResponseOutput(**dict(tensor)) for tensor in payload.inputs]
        return InferenceResponse(model_name="m", id=payload.id, outputs=outputs)

    with TestClient(app) as client:
        response = client.post("/", json={"id": "1", "inputs": [TENSOR]})
        assert response.status_code == 200
        assert InferenceResponse.model_validate(response.json()) == InferenceResponse(
            model_name="m", id="1", outputs=[ResponseOutput(**TENSOR)]
        )
        assert client.post("/", json={"id": "1"}).json()["detail"][0]["loc"] == ["body", "inputs"]
        document = client.get("/openapi.json").json()
    assert document["paths"]["/"]["post"]["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/InferenceRequest"
    }


def test_subclass_is_a_payload() -> None:
    class Named(InferenceResponse):
        @property
        def first(self) -> str:
            return self.outputs[0].name

    made = Named(model_name="m", outputs=[ResponseOutput(**TENSOR)])
    assert made.first == "x"
    assert isinstance(made, InferenceResponse)
    assert made.model_dump() == {"model_name": "m", "outputs": [TENSOR]}
    assert type(made.model_copy()) is Named
    constructed = InferenceResponse.construct(model_name="m", outputs=[])
    assert constructed == InferenceResponse(model_name="m", outputs=[])


def test_payload_behaves_as_a_pydantic_model() -> None:
    @singledispatch
    def kind(value: object) -> str:
        return "other"

    kind.register(pydantic.BaseModel, lambda model: "model")

    class Envelope(pydantic.BaseModel, Generic[Model]):
        item: Model

    tensor = ResponseOutput(**TENSOR)
    for payload in (InferenceRequest(inputs=[]), InferenceResponse(model_name="m", outputs=[tensor]), tensor):
        assert isinstance(payload, pydantic.BaseModel)
        assert isinstance(payload, BaseModel)
        assert kind(payload) == "model"
        assert Envelope(item=payload).item is payload
        assert jsonable_encoder(payload) == payload.dict()
        assert payload.__class__.__name__ == type(payload).__name__
        assert type(payload.__class__(**payload.dict())) is type(payload)
    assert not isinstance(tensor, InferenceRequest)


def test_subclass_may_declare_fields_and_pydantic_hooks() -> None:
    class Scored(ResponseOutput):
        name: str = "score"
        score: float | None = None
        unit: str = pydantic.Field(default="%", max_length=2)
        _cache: dict[str, int] = pydantic.PrivateAttr(default_factory=dict)

        @pydantic.field_validator("name")
        @classmethod
        def in_capitals(cls, name: str) -> str:
            return name.upper()

        def model_post_init(self, context: object) -> None:
            self._cache["made"] = 1

    scored = Scored(shape=[1], datatype="FP32", data=[1.0], score="0.5", name="x")
    assert (scored.name, scored.score, scored.unit, scored._cache) == ("X", 0.5, "%", {"made": 1})
    assert scored.model_dump() == {**TENSOR, "name": "X", "score": 0.5, "unit": "%"}
    response = InferenceResponse(model_name="m", outputs=[scored])
    assert response.outputs[0] is scored
    for made in (copy.copy(scored), scored.model_copy(deep=True), Scored.model_validate(scored.dict())):
        assert type(made) is Scored
        assert made == scored
    with pytest.raises(pydantic.ValidationError, match="unit"):
        Scored(**TENSOR, unit="long")
    assert not hasattr(ResponseOutput(**TENSOR), "score")


def test_subclass_of_a_subclass_has_fields_of_both() -> None:
    class Traced(InferenceRequest):
        trace: str = "none"

    class Timed(Traced):
        after: int

        def __init__(self, **fields: object) -> None:
            super().__init__(after=fields.pop("after", 1), **fields)

    assert Timed(inputs=[]).model_dump() == {"inputs": [], "trace": "none", "after": 1}
    assert Traced(inputs=[], trace="t").model_dump() == {"inputs": [], "trace": "t"}

    class Holding(InferenceRequest, Generic[Model]):
        held: Model

    assert Holding[Traced](inputs=[], held=Traced(inputs=[])).held.trace == "none"
    made = pydantic.create_model("Made", __base__=InferenceRequest, trace=(str, "t"))
    assert made(inputs=[]).trace == "t"


@pytest.mark.parametrize("base", [object, ABC])
def test_payload_may_use_a_mixin(base) -> None:
    class Greeting(base):
        def greet(self) -> str:
            return f"hello {self.id}"

    class Greeted(Greeting, InferenceRequest):
        pass

    request = Greeted(id="7", inputs=[RequestInput(**TENSOR)])
    assert request.greet() == "hello 7"
    assert request.model_dump() == {"id": "7", "inputs": [TENSOR]}
    assert copy.deepcopy(request) == request


class Tree(InferenceRequest):
    branches: list["Tree"] = []

    @pydantic.model_validator(mode="after")
    def named(self) -> "Tree":
        self.id = self.id or "leaf"
        return self


def test_subclass_may_be_recursive() -> None:
    tree = Tree.model_validate({"inputs": [], "id": "root", "branches": [{"inputs": []}]})
    assert type(tree.branches[0]) is Tree
    assert tree.branches[0].id == "leaf"
    assert pickle.loads(pickle.dumps(tree)) == tree  # its own bytes


@pytest.mark.filterwarnings("ignore::pydantic.PydanticDeprecatedSince20")
def test_payloads_have_pydantic_v1_names_and_repr() -> None:
    request = InferenceRequest(id="1", inputs=[RequestInput(**TENSOR)])
    assert sorted(InferenceRequest.__fields__) == ["id", "inputs", "outputs", "parameters"]
    assert str(InferenceRequest(id="1", inputs=[])) == "id='1' parameters=None inputs=[] outputs=None"
    assert request.__fields_set__ == {"id", "inputs"}
    assert InferenceRequest.schema() == InferenceRequest.model_json_schema()
    assert InferenceRequest.validate(request.dict()) == request
    assert type(InferenceRequest.validate(request.dict())) is InferenceRequest
    assert list(inspect.signature(InferenceRequest).parameters) == ["id", "parameters", "inputs", "outputs"]
    with pytest.raises(AttributeError, match="unknown"):
        InferenceRequest.unknown  # noqa: B018


def test_copies_exclude_fields() -> None:
    request = InferenceRequest(id="1", inputs=[RequestInput(**TENSOR)])
    assert request.copy(exclude={"id"}).model_dump() == {"inputs": [TENSOR]}
    assert request.copy(include={"id"}, update={"id": "2"}).model_dump() == {"id": "2"}
    assert request.id == "1"


def test_payloads_support_weak_references() -> None:
    tensor = ResponseOutput(name="y", shape=[1], datatype="FP32", data=[1.0])
    response = InferenceResponse(model_name="m", outputs=[tensor])
    assert weakref.ref(tensor)() is tensor
    assert weakref.ref(response)() is response
