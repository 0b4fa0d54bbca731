"""`TextInterface`: the text inputs of a model, and whether it returns text or vectors."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass
from typing import Any

import orjson

from inferstream import ModelSettings
from inferstream.errors import Unsupported
from inferstream.ext.http import JsonLimits
from inferstream.ext.runtimes import Signature, TextFacts, UntrustedOrigin
from inferstream.ext.values import OPTIONAL, SCHEMA, parameter_of
from inferstream.types import InferenceRequest, MetadataTensor, Parameters, RequestInput, TensorData

from .calls.formats import create_parser
from .calls.parser import CallParser, Chain
from .calls.thinking import OPENED, find_tags
from .chat import NO_TEMPLATE, Chat, build_plain_prompt
from .decisive_options import DECISIVE, NEUTRAL
from .fields import wrong_field
from .inputs import FIELD, MESSAGES, SAMPLING, SPECIAL, TEMPLATE_OPTIONS, TOOLS, FieldTexts
from .settings import TextSettings
from .template import Origin, Render, find_formats, load_chat_template

FLOATS = frozenset(("FP16", "BF16", "FP32", "FP64"))

UNDECLARED = MetadataTensor(name="prompt", datatype="BYTES", shape=[1])
"""Input of a model that declares none."""


@dataclass(eq=False)
class TextInterface(TextFacts):
    """The text inputs of a model, and the kind of its outputs.

    `prompt` is its first BYTES input that is neither special nor a sampling parameter. `extras` are the
    special inputs that it declares, and `sampling` the parameters that it takes as inputs.
    """

    prompt: MetadataTensor | None
    extras: Mapping[str, MetadataTensor]
    sampling: Mapping[str, MetadataTensor]
    render: Render
    """Renders chat messages to a prompt, for a model that does not take messages."""
    _: KW_ONLY
    generates: bool
    """Whether the model may return text."""
    embeds: bool
    """Whether the model returns vectors."""
    logprobs: bool
    streams: bool
    token_ids: bool = False
    """Whether the model takes token IDs instead of text."""
    function: bool = False
    """Whether the model takes only the parameters that it declares as inputs."""
    listed: bool
    """Whether model lists include the model."""
    limits: JsonLimits | None = None
    """Limits of the JSON within a string field of a request."""
    calls: str | None = None
    reasoning: str | None = None
    """The formats of tool calls and reasoning in the model's text, if any."""

    def takes(self, name: str) -> bool:
        """Return whether the model declares this special input."""
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
        """Whether its reasoning can be separated from the rest of its text."""
        return self.calls == "harmony" or find_tags(self.reasoning) is not None

    def render_chat(
        self, chat: Chat, inputs: Mapping[str, Sequence[str | bytes]]
    ) -> "str | Future[str] | None":
        """Render chat messages, and tools in the inputs, to a prompt, which may be a future.

        Returns None if the model takes messages.
        """
        if self.takes(MESSAGES):
            return None
        if chat.needs_template and self.render is build_plain_prompt:
            raise wrong_field(TEMPLATE_OPTIONS, NO_TEMPLATE)
        tools = {TOOLS: orjson.loads(inputs[TOOLS][0])} if TOOLS in inputs else {}
        return self.render(chat.messages, chat.field, chat.options | tools)

    def create_parser(
        self, tools: Sequence[dict[str, Any]] | None, request: InferenceRequest, closed: bool = False
    ) -> CallParser | Chain | None:
        """Create a parser for reasoning and, with tools, for tool calls. Returns None if neither is needed.

        `closed` means that the request prevents the template from opening a reasoning block.
        """
        rendered = self.reasoning is not None and not self.takes(MESSAGES)
        prompt = str(request.inputs[0].data.peek()[0]) if rendered else None
        reasoning = self.reasoning and self.reasoning.removesuffix(OPENED) if closed else self.reasoning
        return create_parser(self.calls, reasoning, tools, prompt)

    def build_request(
        self,
        texts: Sequence[str] | None,
        extras: Mapping[str, Sequence[str | bytes]],
        parameters: dict[str, Any],
    ) -> InferenceRequest:
        """Build a request with these strings as prompts. Raises Unsupported if the model takes no prompt."""
        inputs = [_tensor(self.extras[name], values) for name, values in extras.items()]
        if self.sampling:
            taken = parameters.keys() & self.sampling.keys()
            inputs += [_tensor(self.sampling[name], [parameters[name]]) for name in sorted(taken)]
            parameters = {name: value for name, value in parameters.items() if name not in taken}
        if self.function and not DECISIVE.isdisjoint(parameters):
            changed = [name for name in DECISIVE & parameters.keys() if parameters[name] != NEUTRAL.get(name)]
            if self.embeds and "truncate" in changed:  # a function receives each text in full
                changed.remove("truncate")
            if changed:
                raise wrong_field(min(changed), "is not an option of the model")
        if texts is not None:
            if self.prompt is None:
                raise Unsupported("The model takes no prompt, only messages.")
            inputs.insert(0, _tensor(self.prompt, texts))
        # Copied, because models may modify their parameters.
        return InferenceRequest.of(inputs, None, Parameters.of({**parameters}) if parameters else None)


def build_text_interface(
    signature: Signature, settings: ModelSettings, origin: Origin = UntrustedOrigin.author
) -> TextInterface | None:
    """Return the text interface of a model, or None if it takes no text or `openai: false` hides it.

    A model takes text if it declares a BYTES input, requires no inputs except the prompt and those in
    the `inputs` module, and declares text or float outputs. A model that declares no inputs may take text if
    it streams, but lists include it only with `openai: true`. `origin` returns the origin of a file whose
    author is not trusted.
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
    calls, reasoning = (signature.formats or find_formats(settings, origin)) if generates else (None, None)
    if signature.formats or (text.reasoning_format is None and MESSAGES not in extras):
        reasoning = reasoning and reasoning.removesuffix(OPENED)  # detected in each text or prompt instead
    return TextInterface(
        prompt,
        extras,
        sampling,
        load_chat_template(settings, origin) if generates and MESSAGES not in extras else build_plain_prompt,
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
    """Return whether a tensor holds plain text, not JSON, base64 or another content type."""
    return tensor.datatype == "BYTES" and _content_type(tensor) in (None, "str")


def holds_vectors(tensor: MetadataTensor) -> bool:
    """Return whether a tensor holds floats, or JSON lists of floats, as `list[list[float]]` declares."""
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
    """Return whether a tensor holds binary data such as files, which are base64 in JSON."""
    return tensor.datatype == "BYTES" and _content_type(tensor) == "base64"


def holds_json(tensor: MetadataTensor) -> bool:
    """Return whether a tensor holds JSON values."""
    return _content_type(tensor) == "json"


def holds_image(tensor: MetadataTensor) -> bool:
    """Return whether a tensor holds image files."""
    return _content_type(tensor) == "image"


def find_only_input(signature: Signature, holds: Callable[[MetadataTensor], bool]) -> MetadataTensor | None:
    """Return the only required input if it is a single value that `holds` accepts, else None."""
    needed = [tensor for tensor in signature.inputs or () if not parameter_of(tensor, OPTIONAL)]
    return needed[0] if len(needed) == 1 and needed[0].shape[:1] == [1] and holds(needed[0]) else None


def build_request_by_name(
    signature: Signature, needed: MetadataTensor, value: str | bytes, others: Mapping[str, Any]
) -> InferenceRequest:
    """Build a request with the required input. `others` become inputs if declared, else parameters."""
    named = {tensor.name: tensor for tensor in signature.inputs or () if parameter_of(tensor, OPTIONAL)}
    inputs = [_tensor(named[name], [given]) for name, given in others.items() if name in named]
    parameters = {name: given for name, given in others.items() if name not in named}
    return InferenceRequest.of(
        [_tensor(needed, [value]), *inputs], None, Parameters.of(parameters) if parameters else None
    )


def _content_type(tensor: MetadataTensor) -> str | None:
    return None if tensor.parameters is None else tensor.parameters.content_type


def _tensor(declared: MetadataTensor, values: Sequence[Any]) -> RequestInput:
    """Build an input with the declared number of dimensions, and the values along the first one."""
    shape = [len(values)] + [1] * (len(declared.shape) - 1)
    parameters = Parameters.of({FIELD: values.field}) if isinstance(values, FieldTexts) else None
    return RequestInput.of(declared.name, shape, declared.datatype, TensorData([*values]), parameters)
