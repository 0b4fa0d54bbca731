"""Folders as MLServer's documentation has them, with stand-ins for the frameworks its runtimes need."""

from pathlib import Path

from tests.serving import tensor, write_model

ECHO = """
from mlserver import MLModel
from mlserver.codecs import DecodedParameterName
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput

HIDDEN = {DecodedParameterName, "headers"}


class EchoRuntime(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self._echo(payload)

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield self._echo(payload)

    def _echo(self, payload):
        outputs = []
        for given in payload.inputs:
            self.decode(given)
            given.dict(exclude={"parameters": HIDDEN})
            outputs.append(
                ResponseOutput(name=given.name, datatype=given.datatype, shape=given.shape, data=given.data)
            )
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""

WINE = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, Parameters

COLUMNS = ["fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides", "pH"]


class MLflowRuntime(MLModel):
    async def load(self) -> bool:
        np_ = Parameters(content_type="np")
        self.inputs = [
            MetadataTensor(name=name, datatype="FP64", shape=[-1, 1], parameters=np_) for name in COLUMNS
        ]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self._score(payload)

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield self._score(payload)

    def _score(self, payload):
        columns = {given.name: self.decode(given) for given in payload.inputs}
        score = sum(columns[name].astype(float) for name in COLUMNS)
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("output-1", score)]
        )
"""

TRANSFORMER = """
import json

from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput


class HuggingFaceRuntime(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self._generate(payload)

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield self._generate(payload)

    def _generate(self, payload):
        texts = self.decode(payload.inputs[0], default_codec=StringCodec)
        made = [json.dumps({"generated_text": text + " and so on"}) for text in texts]
        output = ResponseOutput(
            name="output",
            shape=[len(made), 1],
            datatype="BYTES",
            data=made,
            parameters=Parameters(content_type="hg_jsonlist"),
        )
        return InferenceResponse(model_name=self.name, outputs=[output])
"""

ODD = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class Odd(MLModel):
    '''Does what the request's parameter `do` says, each as MLServer's users have written it.'''

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return getattr(self, payload.parameters.do)(payload)

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield getattr(self, payload.parameters.do)(payload)

    def numbers(self, payload):
        '''What NumPy makes of the input.'''
        array = NumpyCodec.decode_input(payload.inputs[0])
        return self._answer(array.reshape(-1).tolist(), [array.size], payload.inputs[0].datatype)

    def echoed(self, payload):
        return self._answer(payload.inputs[0].data.root, [2])

    def nested(self, payload):
        return self._answer([[1.5, 2.5], [3.5, 4.5]], [2, 2])

    def misfit(self, payload):
        return self._answer([1.5, 2.5], [7, 3])

    def ragged(self, payload):
        return self._answer([[1.5], [2.5, 3.5]], [2])

    def assigned(self, payload):
        payload.inputs[0].data = [4.0]
        output = ResponseOutput(name="y", shape=[1], datatype="FP32", data=[0.0])
        output.data = payload.inputs[0].data.root + [5.0]
        output.data.root = [*output.data.root, 6.0]
        output.shape = [3]
        return InferenceResponse(model_name=self.name, outputs=[output])

    def ranged(self, payload):
        return self._answer(range(4), [4], "INT64")

    def told(self, payload):
        '''The nested parameters, as they reach the model.'''
        found = payload.parameters.deep["a"][1]["b"]
        inner = payload.inputs[0].parameters.list
        return self._answer([found, *inner], [3], "INT64")

    def text(self, payload):
        '''Numbers tagged as BYTES.'''
        return self._answer([1, 2], [2], "BYTES")

    def unwritable(self, payload):
        return self._answer([object()], [1])

    def _answer(self, data, shape, datatype="FP32"):
        output = ResponseOutput(name="y", shape=shape, datatype=datatype, data=data)
        return InferenceResponse(model_name=self.name, outputs=[output])
"""

SHIPPED_INPUTS = [
    {"name": "metadata-np", "datatype": "INT32", "shape": [2, 2], "parameters": {"content_type": "np"}},
    {"name": "metadata-str", "datatype": "BYTES", "shape": [11], "parameters": {"content_type": "str"}},
]


def write_folders(root: Path) -> Path:
    """The content-type example with its declared inputs, the MLflow and Hugging Face ones, and one of odd habits."""
    write_model(root, "content-type-example", "runtime.EchoRuntime", ECHO, inputs=SHIPPED_INPUTS)
    write_model(root, "wine-classifier", "wine.MLflowRuntime", WINE)
    write_model(root, "transformer", "transformer.HuggingFaceRuntime", TRANSFORMER)
    declared = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}],
        "outputs": [{"name": "y", "datatype": "INT8", "shape": [9]}],
    }
    write_model(root, "odd", "odd.Odd", ODD, **declared)
    write_model(root, "odd-cached", "odd.Odd", ODD, cache_enabled=True, **declared)
    write_model(root, "odd-batched", "odd.Odd", ODD, max_batch_size=8, max_batch_time=0.05, **declared)
    write_model(root, "checked", "odd.Odd", ODD, input_validation="strict")
    return root


def _tagged(kind: str, *given: object) -> dict:
    return {**tensor(*given), "parameters": {"content_type": kind}}


def _wine(datatype: str) -> dict:
    values = {"fixed acidity": 7.4, "volatile acidity": 0.7, "citric acid": 0, "residual sugar": 1.9}
    values |= {"chlorides": 0.076, "pH": 3.51}
    return {"inputs": [tensor(name, datatype, [value]) for name, value in values.items()]}


DOCUMENTED = {
    "inputs that are not declared": (
        "content-type-example",
        {
            "inputs": [
                _tagged("np", "parameters-np", "INT32", [1, 2, 3, 4], [2, 2]),
                _tagged("str", "parameters-str", "BYTES", "hello world \U0001f601", [1]),
            ]
        },
    ),
    "inputs as codecs write them": (
        "content-type-example",
        {
            "id": None,
            "parameters": None,
            "inputs": [
                {
                    "name": "parameters-np",
                    "shape": [2, 2],
                    "datatype": "INT64",
                    "parameters": {"content_type": "np", "headers": None},
                    "data": [1, 2, 3, 4],
                },
                {
                    "name": "parameters-str",
                    "shape": [1, 1],
                    "datatype": "BYTES",
                    "parameters": {"content_type": "str", "headers": None},
                    "data": ["hello world \U0001f601"],
                },
            ],
            "outputs": None,
        },
    ),
    "declared inputs": (
        "content-type-example",
        {
            "inputs": [
                tensor("metadata-np", "INT32", [1, 2, 3, 4], [2, 2]),
                tensor("metadata-str", "BYTES", "hello world \U0001f601", [11]),
            ]
        },
    ),
    "one of the declared inputs": (
        "content-type-example",
        {"inputs": [tensor("metadata-np", "INT32", [1, 2, 3, 4], [2, 2])]},
    ),
    "texts whose shape counts letters": (
        "content-type-example",
        {
            "inputs": [
                _tagged("np", "parameters-np", "INT32", [1, 2, 3, 4], [2, 2]),
                _tagged(
                    "str",
                    "parameters-str",
                    "BYTES",
                    ["hello world \U0001f601", "bye bye \U0001f601"],
                    [2, 11],
                ),
            ],
            "parameters": {"content_type": "pd"},
        },
    ),
    "FP32 for declared FP64": ("wine-classifier", _wine("FP32")),
    "one text": ("transformer", {"inputs": [tensor("args", "BYTES", ["this is a test"], [1])]}),
    "texts that are more than the shape says": (
        "transformer",
        {"inputs": [tensor("text_inputs", "BYTES", ["This is a generation for the work"] * 12, [1])]},
    ),
}
"""Requests of the documentation, by what is particular about them: model and request."""


def _does(what: str, datatype: str = "FP32", data: object = (1.0,), **more: object) -> tuple[str, dict]:
    values = list(data) if isinstance(data, tuple) else data
    given = {"name": "x", "datatype": datatype, "shape": [len(values)], "data": values}
    return "odd", {"inputs": [{**given, **more}], "parameters": {"do": what}}


ODDITIES = {
    "booleans as FP32": (_does("numbers", "FP32", (True, False)), [1.0, 0.0]),
    "texts as FP32": (_does("numbers", "FP32", ("1", "2.5")), [1.0, 2.5]),
    "fractions as INT64": (_does("numbers", "INT64", (1.5, 2.9)), [1, 2]),
    "nested answer": (_does("nested"), [[1.5, 2.5], [3.5, 4.5]]),
    "shape that does not fit": (_does("misfit"), [1.5, 2.5]),
    "ragged answer": (_does("ragged"), [[1.5], [2.5, 3.5]]),
    "assigned data": (_does("assigned"), [4.0, 5.0, 6.0]),
    "nested parameters": (
        ("odd", {**_does("told")[1], "parameters": {"do": "told", "deep": {"a": [1, {"b": 7}]}}}),
        [7, 8, 9],
    ),
    "numbers as BYTES": (_does("text"), [1, 2]),
}
"""What MLServer does with tensors that do not agree with themselves: the request, and the values that come back."""
ODDITIES["nested parameters"][0][1]["inputs"][0]["parameters"] = {"list": [8, 9]}
