"""Fields of the references of text APIs: names and types, and a value of each that differs from its default."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Field(NamedTuple):
    """A field of a request, and the other fields that it needs to have an effect."""

    kind: str
    value: Any
    given: Mapping[str, Any] = {}


class Api(NamedTuple):
    """The path of an API, the body of the shortest request, its fields, and the object that options are in."""

    title: str
    path: str
    body: Mapping[str, Any]
    fields: Mapping[str, Field]
    within: str = ""

    def request(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """A request without a field, and the same request with it."""
        field = self.fields[name]
        plain = {**self.body, **(field.given if not self.within else {})}
        if not self.within:
            return plain, {**plain, name: field.value}
        options = {**self.body.get(self.within, {}), **field.given}
        return {**plain, self.within: options}, {**plain, self.within: {**options, name: field.value}}


SAID = [{"role": "user", "content": "one two three"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FUNCTION = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
TOOL = {"type": "function", "function": FUNCTION}
RANDOM = {"temperature": 1.5, "seed": 3}

SAMPLED: dict[str, Field] = {
    "temperature": Field("number", 1.9, {"seed": 1}),
    "top_p": Field("number", 0.01, RANDOM),
    "seed": Field("integer", 11, {"temperature": 1.9}),
    "presence_penalty": Field("number", 2.0),
    "frequency_penalty": Field("number", 2.0),
}

SERVERS: dict[str, Field] = {
    "top_k": Field("integer", 1, RANDOM),
    "min_p": Field("number", 0.9, RANDOM),
    "repetition_penalty": Field("number", 1.9),
    "ignore_eos": Field("boolean", True, {"logit_bias": {"0": 100}}),
    "min_tokens": Field("integer", 3, {"logit_bias": {"0": 100}}),
    "stop_token_ids": Field("list of integers", [40], {"logit_bias": {"40": 100}}),
    "allowed_token_ids": Field("list of integers", [5, 6]),
    "bad_words": Field("list of strings", ["H"], {"logit_bias": {"40": 100}}),
    "guided_json": Field("object", SCHEMA),
    "guided_regex": Field("string", "a+b"),
    "guided_choice": Field("list of strings", ["yes", "no"]),
    "guided_grammar": Field("string", 'start: "yes"'),
    "structured_outputs": Field("object", {"regex": "a+b"}),
    "use_beam_search": Field("boolean", True),
    "length_penalty": Field("number", 2.0),
    "typical_p": Field("number", 0.5),
    "include_stop_str_in_output": Field("boolean", True),
    "skip_special_tokens": Field("boolean", False),
    "truncate_prompt_tokens": Field("integer", 2),
    "prompt_logprobs": Field("integer", 1),
    "return_token_ids": Field("boolean", True),
    "return_tokens_as_token_ids": Field("boolean", True),
    "regex": Field("string", "a+b"),
    "ebnf": Field("string", 'root ::= "a"'),
    "json_schema": Field("object", SCHEMA),
    "grammar": Field("string", 'root ::= "a"'),
    "repeat_last_n": Field("integer", 3),
    "mirostat": Field("integer", 2),
    "priority": Field("integer", 1),
    "cache_prompt": Field("boolean", True),
}
"""Fields of vLLM, SGLang and llama.cpp that clients send in `extra_body`."""

LABELS: dict[str, Field] = {
    "user": Field("string", "u"),
    "metadata": Field("object", {"a": "b"}),
    "store": Field("boolean", False),
    "service_tier": Field("string", "auto"),
    "safety_identifier": Field("string", "s"),
    "prompt_cache_key": Field("string", "k"),
    "prompt_cache_retention": Field("string", "24h"),
    "prompt_cache_options": Field("object", {"mode": "implicit"}),
}

CHAT = Api(
    "OpenAI chat completions",
    "/v1/chat/completions",
    {"messages": SAID, "max_tokens": 60},
    {
        **SAMPLED,
        **LABELS,
        "audio": Field("object", {"voice": "alloy", "format": "wav"}),
        "function_call": Field("string or object", "auto"),
        "functions": Field("list of objects", [FUNCTION]),
        "logit_bias": Field("object of numbers", {"40": 100}),
        "logprobs": Field("boolean", True),
        "max_completion_tokens": Field("integer", 2),
        "max_tokens": Field("integer", 2),
        "modalities": Field("list of strings", ["text", "audio"]),
        "moderation": Field("object", {"model": "m"}),
        "n": Field("integer", 2),
        "parallel_tool_calls": Field("boolean", False, {"tools": [TOOL]}),
        "prediction": Field("object", {"type": "content", "content": "a"}),
        "reasoning_effort": Field("string", "high"),
        "reasoning": Field("object", {"effort": "high"}),
        "thinking": Field("object", {"type": "enabled"}),
        "think": Field("boolean or string", True),
        "response_format": Field("object", {"type": "json_object"}),
        "stop": Field("string or list of strings", ["o", "e", "a", "t", "i", "N", "I", "|"]),
        "stream": Field("boolean", True),
        "stream_options": Field("object", {"include_usage": True}, {"stream": True}),
        "tool_choice": Field("string or object", "required", {"tools": [TOOL]}),
        "tools": Field("list of objects", [TOOL]),
        "top_logprobs": Field("integer", 3, {"logprobs": True}),
        "verbosity": Field("string", "low"),
        "web_search_options": Field("object", {"search_context_size": "low"}),
        **SERVERS,
        "echo": Field("boolean", True),
        "best_of": Field("integer", 2),
    },
)

COMPLETIONS = Api(
    "OpenAI completions",
    "/v1/completions",
    {"prompt": "one two three", "max_tokens": 60},
    {
        **SAMPLED,
        "user": LABELS["user"],
        "best_of": Field("integer", 2),
        "echo": Field("boolean", True),
        "logit_bias": Field("object of numbers", {"40": 100}),
        "logprobs": Field("integer", 2),
        "max_tokens": Field("integer", 2),
        "n": Field("integer", 2),
        "stop": Field("string or list of strings", ["o", "e", "a", "t", "i", "N", "I", "|"]),
        "stream": Field("boolean", True),
        "stream_options": Field("object", {"include_usage": True}, {"stream": True}),
        "suffix": Field("string", "end"),
        **SERVERS,
        "tools": Field("list of objects", [TOOL]),
        "top_logprobs": Field("integer", 2),
    },
)

RESPONSES = Api(
    "OpenAI responses",
    "/v1/responses",
    {"input": "one two three", "max_output_tokens": 60},
    {
        "temperature": SAMPLED["temperature"],
        "top_p": SAMPLED["top_p"],
        **LABELS,
        "access_programs": Field("object", {"cyber": "standard"}),
        "background": Field("boolean", True),
        "background_options": Field("object", {"completion_window": "2h"}),
        "context_management": Field("list of objects", [{"type": "compaction"}]),
        "conversation": Field("string or object", "conv_1"),
        "image": Field("object", {"context_compression": "enabled"}),
        "include": Field("list of strings", ["message.output_text.logprobs"]),
        "instructions": Field("string", "four five"),
        "max_output_tokens": Field("integer", 2),
        "max_tool_calls": Field("integer", 2),
        "moderation": Field("object", {"model": "m"}),
        "parallel_tool_calls": Field("boolean", False),
        "previous_response_id": Field("string", "resp_1"),
        "prompt": Field("object", {"id": "p"}),
        "reasoning": Field("object", {"effort": "high"}),
        "stream": Field("boolean", True),
        "text": Field("object", {"format": {"type": "json_object"}}),
        "tool_choice": Field("string or object", "required"),
        "tools": Field("list of objects", [{"type": "function", **FUNCTION}]),
        "top_logprobs": Field("integer", 3, {"include": ["message.output_text.logprobs"]}),
        "truncation": Field("string", "auto"),
        **SERVERS,
    },
)

EMBEDDINGS = Api(
    "OpenAI embeddings",
    "/v1/embeddings",
    {"input": "hello"},
    {
        "dimensions": Field("integer", 2),
        "encoding_format": Field("string", "base64"),
        "user": LABELS["user"],
        "truncate_prompt_tokens": Field("integer", 2),
        "add_special_tokens": Field("boolean", False),
    },
)

ANTHROPIC = Api(
    "Anthropic messages",
    "/v1/messages",
    {"messages": SAID, "max_tokens": 60},
    {
        "temperature": SAMPLED["temperature"],
        "top_p": SAMPLED["top_p"],
        "top_k": SERVERS["top_k"],
        "max_tokens": Field("integer", 2),
        "cache_control": Field("object", {"type": "ephemeral"}),
        "compaction": Field("object", {"type": "auto"}),
        "container": Field("string or object", "c"),
        "context_management": Field("object", {"edits": [{"type": "clear_tool_uses_20250919"}]}),
        "diagnostics": Field("object", {"a": True}),
        "fallbacks": Field("list of objects", [{"model": "m"}]),
        "inference_geo": Field("string", "eu"),
        "mcp_servers": Field("list of objects", [{"type": "url", "url": "http://a.test", "name": "a"}]),
        "metadata": LABELS["metadata"],
        "output_config": Field("object", {"format": {"type": "json_schema", "schema": SCHEMA}}),
        "service_tier": Field("string", "auto"),
        "speed": Field("string", "fast"),
        "stop_sequences": Field("list of strings", ["o", "e", "a", "t", "i", "N", "I", "|"]),
        "stream": Field("boolean", True),
        "system": Field("string or list of objects", "four five"),
        "thinking": Field("object", {"type": "enabled", "budget_tokens": 1024}),
        "thread": Field("object", {"id": "t"}),
        "tool_choice": Field("object", {"type": "any"}, {"tools": [FUNCTION]}),
        "tools": Field("list of objects", [FUNCTION]),
        "user_profile_id": Field("string", "u"),
        "workspace_id": Field("string", "w"),
    },
)

_OLLAMA: dict[str, Field] = {
    "format": Field("string or object", "json"),
    "keep_alive": Field("string or number", "5m"),
    "logprobs": Field("boolean", True),
    "options": Field("object", {"num_predict": 2}),
    "stream": Field("boolean", True),
    "think": Field("boolean or string", True),
    "top_logprobs": Field("integer", 3, {"logprobs": True}),
    "truncate": Field("boolean", True),
    "shift": Field("boolean", True),
}

OLLAMA_CHAT = Api(
    "Ollama chat",
    "/api/chat",
    {"messages": SAID, "stream": False, "options": {"num_predict": 60}},
    {**_OLLAMA, "tools": Field("list of objects", [TOOL])},
)

OLLAMA_GENERATE = Api(
    "Ollama generate",
    "/api/generate",
    {"prompt": "one two three", "stream": False, "options": {"num_predict": 60}},
    {
        **_OLLAMA,
        "context": Field("list of integers", [1, 2]),
        "images": Field("list of strings", ["aGVsbG8="]),
        "raw": Field("boolean", True),
        "suffix": Field("string", "end"),
        "system": Field("string", "four five"),
        "template": Field("string", "{{ .Prompt }}"),
        "width": Field("integer", 8),
        "height": Field("integer", 8),
        "steps": Field("integer", 8),
    },
)

OLLAMA_OPTIONS = Api(
    "Ollama options",
    "/api/chat",
    {"messages": SAID, "stream": False, "options": {"num_predict": 60}},
    {
        **SAMPLED,
        "top_k": SERVERS["top_k"],
        "min_p": SERVERS["min_p"],
        "repeat_penalty": Field("number", 1.9),
        "num_predict": Field("integer", 2),
        "stop": Field("list of strings", ["o", "e", "a", "t", "i", "N", "I", "|"]),
        "mirostat": Field("integer", 2),
        "mirostat_eta": Field("number", 0.5),
        "mirostat_tau": Field("number", 3.0),
        "penalize_newline": Field("boolean", False),
        "repeat_last_n": Field("integer", 3),
        "tfs_z": Field("number", 0.5),
        "typical_p": Field("number", 0.5),
        **{
            name: Field("integer", 1)
            for name in ("main_gpu", "num_batch", "num_ctx", "num_gpu", "num_keep", "num_thread")
        },
        **{
            name: Field("boolean", True)
            for name in (
                "embedding_only",
                "f16_kv",
                "logits_all",
                "low_vram",
                "numa",
                "use_mlock",
                "use_mmap",
            )
        },
        "vocab_only": Field("boolean", True),
    },
    "options",
)

OLLAMA_EMBED = Api(
    "Ollama embed",
    "/api/embed",
    {"input": "hello"},
    {
        "dimensions": Field("integer", 2),
        "keep_alive": Field("string or number", "5m"),
        "options": Field("object", {"mirostat": 2}),
        "truncate": Field("boolean", False, {"input": "hello " * 9000}),
    },
)

TGI = Api(
    "TGI generate",
    "/generate",
    {"inputs": "one two three", "parameters": {"max_new_tokens": 60, "details": True}},
    {
        "adapter_id": Field("string", "a"),
        "best_of": Field("integer", 2, {"do_sample": True}),
        "decoder_input_details": Field("boolean", True),
        "details": Field("boolean", False),
        "do_sample": Field("boolean", True, {"seed": 3}),
        "frequency_penalty": Field("number", 2.0),
        "grammar": Field("object", {"type": "regex", "value": "a+b"}),
        "max_new_tokens": Field("integer", 2),
        "repetition_penalty": Field("number", 1.9),
        "return_full_text": Field("boolean", True),
        "seed": Field("integer", 11, {"temperature": 1.9}),
        "stop": Field("list of strings", ["o", "e", "a", "t", "i", "N", "I", "|"]),
        "temperature": Field("number", 1.9, {"seed": 1}),
        "top_k": Field("integer", 1, RANDOM),
        "top_n_tokens": Field("integer", 3),
        "top_p": Field("number", 0.01, RANDOM),
        "truncate": Field("integer", 2),
        "typical_p": Field("number", 0.5),
        "watermark": Field("boolean", True),
    },
    "parameters",
)

APIS = (
    *(CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS, ANTHROPIC),
    *(OLLAMA_CHAT, OLLAMA_GENERATE, OLLAMA_OPTIONS, OLLAMA_EMBED, TGI),
)
