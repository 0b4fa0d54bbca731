"""Names of the inputs by which a model says that it takes more than a prompt. All of them are BYTES."""

MESSAGES = "messages"
"""Chat messages as JSON: one list of objects with `role` and `content`."""

TOOLS = "tools"
"""Tools that the model may call, as JSON."""

RESPONSE_FORMAT = "response_format"
"""The form that the text must have, as JSON."""

IMAGES = "images"
"""The bytes of each image."""

AUDIO = "audio"
"""The bytes of each sound."""

SUFFIX = "suffix"
"""The text that comes behind the text to be written."""

SPECIAL = frozenset((MESSAGES, TOOLS, RESPONSE_FORMAT, IMAGES, AUDIO, SUFFIX))

SAMPLING = frozenset(
    ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")
) | frozenset(("repetition_penalty", "logprobs", "top_logprobs", "logit_bias", "stream"))
"""Parameters that a model may declare as inputs of one value; it gets them as tensors then."""
