"""`Signature`: what a model takes and returns, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from .types import MetadataTensor

Tensors = tuple[MetadataTensor, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """What a model is known to take and return, without a declaration. Requests are not held against it.

    A runtime finds it out when the model loads. `parameters` are those of the model's metadata.
    """

    inputs: Tensors = ()
    outputs: Tensors = ()
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    formats: tuple[str | None, str | None] | None = None
    """The formats of calls and of reasoning in its texts, where the runtime knows the chat template."""


@dataclass(frozen=True, slots=True)
class FunctionRpc:
    """The typed RPC of a function: `/{service}/{method}`.

    `numbers` are the field numbers of the request by argument. `classic` is the form of BlazeRPC's messages: `float` is
    32 bits wide, and only optional arguments have presence. `streams` tells that it has a stream of responses.
    """

    service: str
    method: str
    numbers: dict[str, int]
    classic: bool = False
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """What a model takes and returns: what its settings or its code declare, else what annotations say.

    `inputs` or `outputs` are None where they are not known.
    """

    inputs: Tensors | None = None
    outputs: Tensors | None = None
    inputs_annotated: bool = False
    """Whether annotations give the inputs; requests are held against declared ones."""
    outputs_annotated: bool = False
    streams: bool = False
    """Whether the model makes streams of its own."""
    logprobs: bool = False
    """Whether its tokens may carry log probabilities."""
    formats: tuple[str | None, str | None] | None = None
    token_ids: bool = False
    """Whether it takes token numbers in place of text."""
    doc: str = ""
    """The author's docstring."""
    function: bool = False
    """Whether it is that of a function, which takes exactly these inputs and checks them itself."""
    rpc: FunctionRpc | None = None
    """The typed RPC of a function of an app."""
    described: Tensors = ()
    """The inputs of a `Description`, where nothing declares inputs. They help to read JSON; nothing enforces them."""
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Those of a `Description`."""

    @property
    def declared_inputs(self) -> Sequence[MetadataTensor]:
        """The inputs that settings or code declare."""
        return () if self.inputs is None or self.inputs_annotated else self.inputs

    @property
    def declared_outputs(self) -> Sequence[MetadataTensor]:
        """The outputs that settings or code declare."""
        return () if self.outputs is None or self.outputs_annotated else self.outputs


SIGNATURE = TypeAdapter(Signature)
"""Writes signatures as JSON, and reads them."""
