"""`TextInterface`: the tensors of a model that take a text, and whether it returns texts or vectors."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import orjson

from inferstream import ModelSettings
from inferstream.ext.http import JsonLimits
from inferstream.ext.runtimes import Signature, TextFacts, UntrustedOrigin
from inferstream.ext.values import OPTIONAL, SCHEMA, parameter_of
from inferstream.plugins.text.settings import TextSettings

from ..errors import Unsupported
from ..types import InferenceRequest, MetadataTensor, Parameters, RequestInput, TensorData
from .calls.formats import reading
from .calls.parser import CallParser, Chain
from .calls.thinking import OPENED, tags_of
from .chat import NO_TEMPLATE, Chat, plain_prompt
from .decisive_options import DECISIVE, NEUTRAL
from .fields import wrong_field
from .inputs import FIELD, MESSAGES, SAMPLING, SPECIAL, TEMPLATE_OPTIONS, TOOLS, FieldTexts
from .template import Origin, Render, chat_template, text_formats

FLOATS = frozenset(("FP16", "BF16", "FP32", "FP64"))

UNDECLARED = MetadataTensor(name="prompt", datatype="BYTES", shape=[1])
"""The input of a model that declares none."""


@dataclass(eq=False)
class TextInterface(TextFacts):
    """How a model takes text.

    `prompt` is its first BYTES input that is neither special nor a sampling parameter. `extras` are the special
    inputs that it declares, and `sampling` the parameters that it takes as inputs.
    """

    prompt: MetadataTensor | None
    extras: Mapping[str, MetadataTensor]
    sampling: Mapping[str, MetadataTensor]
    render: Render
    """Makes a prompt of chat messages, for a model that takes none."""
    _: KW_ONLY
    generates: bool
    """Whether it may return texts."""
    embeds: bool
    """Whether it returns vectors."""
    logprobs: bool
    streams: bool
    token_ids: bool = False
    """Whether it takes token numbers in place of text."""
    function: bool = False
    """Whether it gets no parameters but those that it takes as inputs."""
    listed: bool
    """Whether lists of models show it."""
    limits: JsonLimits | None = None
    """How much JSON a text in a field of a request may hold."""
    calls: str | None = None
    reasoning: str | None = None
    """The formats in which it writes calls and reasoning, where they are part of its text."""

    def takes(self, name: str) -> bool:
        """Whether the model declares this special input."""
        return name in self.extras

    @property
    def operation(self) -> str | None:
        if not self.listed:
            return None
        if self.embeds:
            return "embeddings"
        if not self.generates:
            return None
        return "chat" if self.takes(MESSAGES) else "text_completion"

    @property
    def thinks(self) -> bool:
        """Whether its texts have reasoning that can be told from the answer."""
        return self.calls == "harmony" or tags_of(self.reasoning) is not None

    def chat_prompt(
        self, chat: Chat, inputs: Mapping[str, Sequence[str | bytes]]
    ) -> "str | Future[str] | None":
        """A prompt of chat messages and the tools among the inputs; None for a model that takes the messages.

        It may be a future.
        """
        if self.takes(MESSAGES):
            return None
        if chat.needs_template and self.render is plain_prompt:
            raise wrong_field(TEMPLATE_OPTIONS, NO_TEMPLATE)
        tools = {TOOLS: orjson.loads(inputs[TOOLS][0])} if TOOLS in inputs else {}
        return self.render(chat.messages, chat.field, chat.options | tools)

    def parser(
        self, tools: Sequence[dict[str, Any]] | None, request: InferenceRequest, closed: bool = False
    ) -> CallParser | Chain | None:
        """What takes calls, where there are tools, and reasoning out of its texts; None if nothing has to.

        `closed` says that the request lets the template open no reasoning.
        """
        rendered = self.reasoning is not None and not self.takes(MESSAGES)
        prompt = str(request.inputs[0].data.peek()[0]) if rendered else None
        reasoning = self.reasoning and self.reasoning.removesuffix(OPENED) if closed else self.reasoning
        return reading(self.calls, reasoning, tools, prompt)

    def request(
        self,
        texts: Sequence[str] | None,
        extras: Mapping[str, Sequence[str | bytes]],
        parameters: dict[str, Any],
    ) -> InferenceRequest:
        """A request with these texts as prompt, special inputs and parameters. Raises Unsupported without a prompt."""
        inputs = [_tensor(self.extras[name], values) for name, values in extras.items()]
        if self.sampling:
            taken = parameters.keys() & self.sampling.keys()
            inputs += [_tensor(self.sampling[name], [parameters[name]]) for name in sorted(taken)]
            parameters = {name: value for name, value in parameters.items() if name not in taken}
        if self.function and not DECISIVE.isdisjoint(parameters):
            changed = [name for name in DECISIVE & parameters.keys() if parameters[name] != NEUTRAL.get(name)]
            if self.embeds and "truncate" in changed:  # a function gets each text whole
                changed.remove("truncate")
            if changed:
                raise wrong_field(min(changed), "is not an option of the model")
        if texts is not None:
            if self.prompt is None:
                raise Unsupported("The model takes no prompt, only messages.")
            inputs.insert(0, _tensor(self.prompt, texts))
        # A copy, because models may change their own parameters.
        return InferenceRequest.of(inputs, None, Parameters.of({**parameters}) if parameters else None)


def _author(path: Path) -> str | None:
    """Where a file was fetched from, if its author is not trusted; else None."""
    origin = UntrustedOrigin.of(path)
    return None if origin is None else origin.uri


def text_interface(
    signature: Signature, settings: ModelSettings, origin: Origin = _author
) -> TextInterface | None:
    """How a model takes text; None for a model that does not, or that `openai: false` hides.

    A model takes text if it declares a BYTES input, needs no other input than those of this module, and declares
    an output of texts or floats. A model that declares no inputs may take text if it streams; lists show it only
    with `openai: true`. `origin` says which files are of authors who are not trusted.
    """
    text = settings.section(TextSettings)
    if text.openai is False:
        return None
    inputs = signature.inputs or ()
    sampling = {tensor.name: tensor for tensor in inputs if tensor.name in SAMPLING}
    texts = [tensor for tensor in inputs if tensor.datatype == "BYTES" and tensor.name not in sampling]
    extras = {tensor.name: tensor for tensor in texts if tensor.name in SPECIAL}
    prompt = next((tensor for tensor in texts if tensor.name not in SPECIAL and holds_text(tensor)), None)
    known = {*sampling, *extras, *([] if prompt is None else [prompt.name])}
    if not text.openai and any(
        tensor.name not in known and not parameter_of(tensor, OPTIONAL) for tensor in inputs
    ):
        return None
    if not signature.inputs and (signature.streams or text.openai):
        prompt = UNDECLARED
    if prompt is None and MESSAGES not in extras:
        return None
    # A model that selects its outputs itself has none in its signature.
    outputs = signature.outputs or settings.outputs
    generates = not outputs or any(map(holds_text, outputs))
    embeds = not generates and all(map(holds_vectors, outputs))
    if not generates and not embeds and not text.openai:
        return None
    calls, reasoning = (signature.formats or text_formats(settings, origin)) if generates else (None, None)
    if signature.formats or (text.reasoning_format is None and MESSAGES not in extras):
        reasoning = reasoning and reasoning.removesuffix(OPENED)  # each text or prompt shows it
    return TextInterface(
        prompt,
        extras,
        sampling,
        chat_template(settings, origin) if generates and MESSAGES not in extras else plain_prompt,
        generates=generates,
        embeds=embeds,
        logprobs=signature.logprobs,
        token_ids=signature.token_ids,
        function=signature.function,
        streams=signature.streams,
        listed=bool(text.openai) or (bool(signature.inputs) and bool(outputs)),
        calls=calls,
        reasoning=reasoning,
    )


def holds_text(tensor: MetadataTensor) -> bool:
    """Whether a tensor holds texts, and not the texts of another content type, such as JSON or base64."""
    return tensor.datatype == "BYTES" and _content_type(tensor) in (None, "str")


def holds_vectors(tensor: MetadataTensor) -> bool:
    """Whether a tensor holds floats, or lists of them as JSON, which is what `list[list[float]]` declares."""
    if tensor.datatype in FLOATS:
        return True
    if tensor.parameters is None or not holds_json(tensor):
        return False
    schema = orjson.loads(tensor.parameters.get(SCHEMA) or "{}")
    while schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        schema = schema["items"]
        if schema.get("type") == "number":
            return True
    return False


def holds_bytes(tensor: MetadataTensor) -> bool:
    """Whether a tensor holds bytes that are no text, such as a file, and which JSON has as base64."""
    return tensor.datatype == "BYTES" and _content_type(tensor) == "base64"


def holds_json(tensor: MetadataTensor) -> bool:
    """Whether a tensor holds values as JSON."""
    return _content_type(tensor) == "json"


def holds_image(tensor: MetadataTensor) -> bool:
    """Whether a tensor holds the files of images."""
    return _content_type(tensor) == "image"


def only_needed(signature: Signature, holds: Callable[[MetadataTensor], bool]) -> MetadataTensor | None:
    """The one input that a request must have, where it is a single value of this kind; None for another model."""
    needed = [tensor for tensor in signature.inputs or () if not parameter_of(tensor, OPTIONAL)]
    return needed[0] if len(needed) == 1 and needed[0].shape[:1] == [1] and holds(needed[0]) else None


def request_by_name(
    signature: Signature, needed: MetadataTensor, value: str | bytes, others: Mapping[str, Any]
) -> InferenceRequest:
    """A request with the needed input; the `others` are inputs where the model has one of the name, else parameters."""
    named = {tensor.name: tensor for tensor in signature.inputs or () if parameter_of(tensor, OPTIONAL)}
    inputs = [_tensor(named[name], [given]) for name, given in others.items() if name in named]
    parameters = {name: given for name, given in others.items() if name not in named}
    return InferenceRequest.of(
        [_tensor(needed, [value]), *inputs], None, Parameters.of(parameters) if parameters else None
    )


def _content_type(tensor: MetadataTensor) -> str | None:
    return None if tensor.parameters is None else tensor.parameters.content_type


def _tensor(declared: MetadataTensor, values: Sequence[Any]) -> RequestInput:
    """All values along the first dimension, in a shape of as many dimensions as declared."""
    shape = [len(values)] + [1] * (len(declared.shape) - 1)
    parameters = Parameters.of({FIELD: values.field}) if isinstance(values, FieldTexts) else None
    return RequestInput.of(declared.name, shape, declared.datatype, TensorData([*values]), parameters)
