"""Names of the inputs that a model declares if it takes more than a prompt. All have the BYTES datatype."""

from collections.abc import Iterable

from inferstream.types import RequestInput

MESSAGES = "messages"
"""Chat messages: a JSON list of objects with `role` and `content`."""

TOOLS = "tools"
"""Tools that the model may call: a JSON list."""

TEMPLATE_OPTIONS = "chat_template_kwargs"
"""Variables for the chat template: a JSON object."""

RESPONSE_FORMAT = "response_format"
"""The schema, grammar or format that the output must match, as JSON."""

IMAGES = "images"
"""The bytes of each image."""

AUDIO = "audio"
"""The bytes of each audio clip."""

SUFFIX = "suffix"
"""The text that follows the text to be generated (fill-in-the-middle)."""

TOKEN_IDS = "token_ids"
"""Request parameter: true if each prompt is a JSON list of token IDs, for models that support it."""

FIELD = "field"
"""Input parameter: the request field in which the client sent the input, if its name differs."""

MAX_FIELD_LENGTH = 64
"""Maximum length of such a field name in characters."""

SPECIAL = frozenset((MESSAGES, TOOLS, TEMPLATE_OPTIONS, RESPONSE_FORMAT, IMAGES, AUDIO, SUFFIX))

SAMPLING = frozenset(
    ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")
) | frozenset(("repetition_penalty", "logprobs", "top_logprobs", "logit_bias", "stream"))
"""Parameters that a model may declare as inputs with one value. It then receives them as tensors."""


class FieldTexts(list[str | bytes]):
    """Values of an input that the client sent in a field with a different name."""

    def __init__(self, values: Iterable[str | bytes], field: str) -> None:
        super().__init__(values)
        self.field = field


def field_name(inputs: Iterable[RequestInput], name: str) -> str:
    """Return the name of the request field for an input if it differs, else the name of the input."""
    for tensor in inputs:
        if tensor.name == name and tensor.parameters is not None:
            field = tensor.parameters.get(FIELD)
            if isinstance(field, str) and 0 < len(field) <= MAX_FIELD_LENGTH and field.isprintable():
                return field
    return name
