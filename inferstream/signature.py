"""`Signature`: the inputs, outputs and related properties of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from .types import MetadataTensor

Tensors = tuple[MetadataTensor, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """Inputs and outputs that a runtime finds when it loads a model. Requests are not validated against them.

    `parameters` are added to the model's metadata.
    """

    inputs: Tensors = ()
    outputs: Tensors = ()
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    formats: tuple[str | None, str | None] | None = None
    """The formats of tool calls and reasoning in its output, if the runtime recognises the chat template."""


@dataclass(frozen=True, slots=True)
class FunctionRpc:
    """The typed RPC of a function: `/{service}/{method}`.

    `numbers` maps arguments to the field numbers of the request. `classic` selects the BlazeRPC message
    format, in which `float` is 32 bits wide and only optional arguments have presence. `streams` is True if
    the RPC returns a stream of responses.
    """

    service: str
    method: str
    numbers: dict[str, int]
    classic: bool = False
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a model: declared in its settings or code, or derived from annotations.

    `inputs` and `outputs` are None if they are unknown.
    """

    inputs: Tensors | None = None
    outputs: Tensors | None = None
    inputs_annotated: bool = False
    """Whether `inputs` are derived from annotations. Such inputs are enforced only by strict validation."""
    outputs_annotated: bool = False
    streams: bool = False
    """Whether the model implements streaming itself."""
    logprobs: bool = False
    """Whether the model's tokens can carry log probabilities."""
    formats: tuple[str | None, str | None] | None = None
    token_ids: bool = False
    """Whether the model accepts token ids instead of a string."""
    doc: str = ""
    """The docstring of the model's code."""
    function: bool = False
    """Whether the model is a function, which accepts exactly these inputs and validates them itself."""
    rpc: FunctionRpc | None = None
    """The typed RPC of a function in an app."""
    described: Tensors = ()
    """The inputs of a `Description` if no inputs are declared.

    They help to parse JSON and are not enforced.
    """
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """The parameters of a `Description`."""

    @property
    def declared_inputs(self) -> Sequence[MetadataTensor]:
        """The inputs that settings or code declare, without annotated ones."""
        return () if self.inputs is None or self.inputs_annotated else self.inputs

    @property
    def declared_outputs(self) -> Sequence[MetadataTensor]:
        """The outputs that settings or code declare, without annotated ones."""
        return () if self.outputs is None or self.outputs_annotated else self.outputs


SIGNATURE = TypeAdapter(Signature)
"""Serializes signatures to JSON and parses them."""
