"""Names of the inputs by which a model says that it takes more than a prompt. All of them are BYTES."""

from collections.abc import Iterable, Mapping

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


DECISIVE = frozenset[str]().union(
    ("logit_bias", "min_tokens", "ignore_eos", "stop_token_ids", "allowed_token_ids", "bad_words"),
    ("include_stop_str_in_output", "return_token_ids", "return_tokens_as_token_ids", "use_beam_search"),
    ("length_penalty", "typical_p", "tfs_z", "mirostat", "repeat_last_n", "regex", "ebnf", "json_schema"),
    ("grammar", "chat_template", "documents", "truncate_prompt_tokens", "truncate", "shift", "watermark"),
    ("audio", "function_call", "web_search_options", "moderation", "mcp_servers", "container", "compaction"),
    ("thread", "fallbacks", "diagnostics", "image", "access_programs", "adapter_id", "echo", "best_of"),
    ("mirostat_eta", "mirostat_tau", "penalize_newline", "add_special_tokens", "background_options"),
    ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "tools"),
    ("context_management", "verbosity"),
)
"""Options that change the answer, of which a function that does not declare them cannot be left unaware."""

NEUTRAL: Mapping[str, bool] = {
    **dict.fromkeys(("mirostat", "use_beam_search", "watermark", "truncate", "shift", "ignore_eos"), False),
    **dict.fromkeys(("min_tokens", "echo", "return_token_ids", "return_tokens_as_token_ids"), False),
    "include_stop_str_in_output": False,
    **dict.fromkeys(("typical_p", "tfs_z", "length_penalty", "penalize_newline", "best_of"), True),
    **dict.fromkeys(("add_special_tokens", "skip_special_tokens"), True),
    **dict.fromkeys(("include_reasoning", "separate_reasoning", "stream_reasoning"), True),
}
"""The value of an option that changes nothing, or the number that equals it."""


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
