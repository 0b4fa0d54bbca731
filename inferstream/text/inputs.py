"""Names of the inputs by which a model says that it takes more than a prompt. All of them are BYTES."""

from collections.abc import Iterable

from ..types import RequestInput

MESSAGES = "messages"
"""Chat messages as JSON: one list of objects with `role` and `content`."""

TOOLS = "tools"
"""Tools that the model may call, as JSON."""

TEMPLATE_OPTIONS = "chat_template_kwargs"
"""Variables for the chat template, as JSON: an object."""

RESPONSE_FORMAT = "response_format"
"""The form that the text must have, as JSON."""

IMAGES = "images"
"""The bytes of each image."""

AUDIO = "audio"
"""The bytes of each sound."""

SUFFIX = "suffix"
"""The text that comes behind the text to be written."""

TOKEN_IDS = "token_ids"
"""Parameter of a request: true if each text is a JSON list of token numbers, for models that take them."""

FIELD = "field"
"""Parameter of an input: the field by which the client has given it, where its dialect has another name for it."""

LONGEST_FIELD = 64
"""Characters of such a name."""

SPECIAL = frozenset((MESSAGES, TOOLS, TEMPLATE_OPTIONS, RESPONSE_FORMAT, IMAGES, AUDIO, SUFFIX))

SAMPLING = frozenset(
    ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")
) | frozenset(("repetition_penalty", "logprobs", "top_logprobs", "logit_bias", "stream"))
"""Parameters that a model may declare as inputs of one value; it gets them as tensors then."""


class FieldTexts(list[str | bytes]):
    """The values of an input, which the client has given in a field of another name."""

    def __init__(self, values: Iterable[str | bytes], field: str) -> None:
        super().__init__(values)
        self.field = field


def field_of(inputs: Iterable[RequestInput], name: str) -> str:
    """What the client calls an input: its own name, or that of the field."""
    for tensor in inputs:
        if tensor.name == name and tensor.parameters is not None:
            field = tensor.parameters.get(FIELD)
            if isinstance(field, str) and 0 < len(field) <= LONGEST_FIELD and field.isprintable():
                return field
    return name
