"""The models of the cases, in a server that its two faces share, and the switches that make it wrong."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oip_conformance.tensors import DATATYPES

NAMES = ("oip-identity", "oip-typed", "oip-stream", "oip-text")
DECLARED = {
    "oip-identity": ([], []),
    "oip-typed": (
        [("INPUT0", "FP32", [-1]), ("INPUT1", "BYTES", [-1])],
        [("OUTPUT0", "FP32", [-1]), ("OUTPUT1", "BYTES", [-1])],
    ),
    "oip-stream": ([("text_input", "BYTES", [1])], [("text_output", "BYTES", [1])]),
    "oip-text": ([("prompt", "BYTES", [1])], [("text", "BYTES", [1])]),
}
EXTENSIONS = ["binary_tensor_data", "model_repository", "statistics"]


class Refusal(Exception):
    """An error for the client, with the status that REST gives it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Tensor:
    name: str
    datatype: str
    shape: list[int]
    values: list[Any]


class Engine:
    """The models, and what is counted of them. `wrong` holds the names of the mutations that are on."""

    def __init__(self, wrong: Sequence[str] = ()) -> None:
        self.wrong = frozenset(wrong)
        self.loaded = set(NAMES)
        self.count = 0
        self._lock = threading.Lock()

    def model(self, name: str, version: str = "") -> str:
        if name not in NAMES or version not in ("", "1"):
            raise Refusal(404, f"no model {name} {version}")
        if name not in self.loaded:
            raise Refusal(503, f"{name} is not loaded")
        return name

    def load(self, name: str, loading: bool) -> None:
        if name not in NAMES:
            raise Refusal(404, f"no model {name}")
        if loading:
            self.loaded.add(name)
        if not loading and "unload-does-nothing" not in self.wrong:
            self.loaded.discard(name)

    def index(self, ready: bool) -> list[dict[str, str]]:
        names = [
            name for name in NAMES if name in self.loaded or not ready or "index-ignores-ready" in self.wrong
        ]
        states = {True: "READY", False: "UNAVAILABLE"}
        return [
            {"name": name, "version": "1", "state": states[name in self.loaded], "reason": ""}
            for name in names
        ]

    def infer(self, name: str, inputs: list[Tensor], wanted: list[str]) -> list[Tensor]:
        """The outputs of a single response."""
        for tensor in inputs:
            checked(tensor)
        with self._lock:
            self.count += 1
        if name == "oip-stream":
            return [text_tensor("".join(self.words(inputs)))]
        outputs = inputs if name == "oip-identity" else self._typed(inputs)
        if wanted and "outputs-ignored" not in self.wrong:
            by_name = {output.name: output for output in outputs}
            if unknown := [name for name in wanted if name not in by_name]:
                raise Refusal(400, f"no output {unknown}")
            outputs = [by_name[name] for name in wanted]
        return outputs[:1] if "first-output-alone" in self.wrong else outputs

    def words(self, inputs: list[Tensor]) -> Iterator[str]:
        """The pieces of a stream."""
        texts = [tensor for tensor in inputs if tensor.name == "text_input"]
        if not texts:
            raise Refusal(400, "the input text_input is missing")
        for number, word in enumerate(texts[0].values[0].split()):
            if number and "stream-at-once" not in self.wrong:
                time.sleep(0.02)
            if word == "!fail":
                raise Refusal(500, "the model failed")
            yield f" {word}" if number else word

    def _typed(self, inputs: list[Tensor]) -> list[Tensor]:
        if "inputs-by-position" in self.wrong:
            return [
                Tensor(f"OUTPUT{n}", part.datatype, part.shape, part.values) for n, part in enumerate(inputs)
            ]
        tensors = {tensor.name: tensor for tensor in inputs}
        outputs = []
        for (given, datatype, _), (name, *_rest) in zip(*DECLARED["oip-typed"], strict=True):
            if given not in tensors:
                raise Refusal(400, f"the input {given} is missing")
            tensor = tensors[given]
            if tensor.datatype != datatype:
                raise Refusal(400, f"{given} is {datatype}")
            outputs.append(Tensor(name, datatype, tensor.shape, tensor.values))
        return outputs


def text_tensor(text: str) -> Tensor:
    return Tensor("text_output", "BYTES", [1], [text])


def checked(tensor: Tensor) -> Tensor:
    """The tensor, if it is whole."""
    if tensor.datatype not in DATATYPES:
        raise Refusal(400, f"unknown datatype {tensor.datatype}")
    size = 1
    for length in tensor.shape:
        if type(length) is not int or length < 0:
            raise Refusal(400, f"not a shape: {tensor.shape}")
        size *= length
    if size != len(tensor.values):
        raise Refusal(400, f"{len(tensor.values)} values for {size}")
    texts = sum(isinstance(value, str) for value in tensor.values)
    if texts != (len(tensor.values) if tensor.datatype == "BYTES" else 0):
        raise Refusal(400, f"values that are no {tensor.datatype}")
    return tensor
