"""Options that change the output, which a function must reject unless it declares them."""

from collections.abc import Mapping

TOKENS = (
    "logit_bias min_tokens ignore_eos stop_token_ids allowed_token_ids bad_words typical_p tfs_z mirostat"
    " mirostat_eta mirostat_tau repeat_last_n penalize_newline watermark use_beam_search length_penalty best_of"
    " n num_beams num_return_sequences stop stop_sequences no_stop_trim"
)
PROMPTS = (
    "chat_template documents truncate_prompt_tokens truncate shift add_special_tokens image audio tools"
    " function_call context_management compaction"
)
ANSWERS = (
    "regex ebnf json_schema grammar guided_json guided_regex guided_choice guided_grammar structured_outputs"
    " verbosity echo include_stop_str_in_output return_token_ids return_tokens_as_token_ids"
    " reasoning reasoning_effort thinking think separate_reasoning stream_reasoning"
    " return_hidden_states"
)
SERVICES = (
    "web_search_options moderation mcp_servers container fallbacks diagnostics access_programs adapter_id"
    " background_options"
)

DECISIVE = frozenset(f"{TOKENS} {PROMPTS} {ANSWERS} {SERVICES}".split())

NEUTRAL: Mapping[str, bool] = {
    **dict.fromkeys(("mirostat", "use_beam_search", "watermark", "truncate", "shift", "ignore_eos"), False),
    **dict.fromkeys(("min_tokens", "echo", "think", "return_token_ids", "return_tokens_as_token_ids"), False),
    **dict.fromkeys(("include_stop_str_in_output", "no_stop_trim", "return_hidden_states"), False),
    **dict.fromkeys(
        ("typical_p", "tfs_z", "length_penalty", "penalize_newline", "best_of", "num_beams"), True
    ),
    **dict.fromkeys(("add_special_tokens", "skip_special_tokens"), True),
    **dict.fromkeys(("include_reasoning", "separate_reasoning", "stream_reasoning"), True),
}
"""Option values that have no effect. For numbers, True equals 1."""
