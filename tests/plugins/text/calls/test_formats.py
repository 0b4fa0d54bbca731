import json

import pytest

from inferstream.plugins.text.calls.formats import (
    PARSERS,
    create_parser,
    detect_call_format,
    detect_reasoning_format,
    find_call_opening,
)

NAMED = json.dumps({"type": "function", "function": {"name": "f"}})

TEMPLATES = {
    "hermes": "return a json object within <tool_call></tool_call> XML tags",
    "qwen_coder": "<tool_call>\n<function=example_function_name>",
    "mistral": "{{ '[TOOL_CALLS] [' }}",
    "llama": '{"name": function name, "parameters": dictionary of argument name and its value}',
    "harmony": "<|channel|>analysis<|message|>",
    "glm": "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>",
    "kimi": "{{ '<|tool_calls_section_begin|>' }}",
    "deepseek": "{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['function']['name'] }}",
    "minimax": "{%- set toolcall_begin_token = '<minimax:tool_call>' -%}",
    "minimax_m1": "return a json object within <tool_calls></tool_calls> XML tags, not <tool_call>",
    "cohere": "Action: write <|START_ACTION|> followed by a list of JSON-formatted tool calls",
    "granite": "respond only with <|tool_call|> followed by a JSON list of tools used",
    "phi": "{{ '<|tool|>' + message['tools'] + '<|/tool|>' }}",
    "pythonic": "{{ '<|tool_call_start|>[' }}",
    "deepseek_v32": "{% set dsml = '｜DSML｜' %}<｜tool▁calls",
    "gemma": "{{ '<|tool_call>call:' + call.name }}",
    "nemotron": "respond in the format <TOOLCALL>[ ]</TOOLCALL>",
}


@pytest.mark.parametrize("format", TEMPLATES)
def test_format_is_detected_from_template(format: str) -> None:
    assert detect_call_format(TEMPLATES[format]) == format
    assert detect_call_format("{{ messages }}") is None


def test_reasoning_tags_are_detected_from_template() -> None:
    assert detect_reasoning_format("{{ messages }}") is None
    assert detect_reasoning_format("{% if add_generation_prompt %}{{ '<think>\\n' }}") == "think_open"
    assert (
        detect_reasoning_format("{{ '</think>' }}{% if add_generation_prompt %}{{ '<|im_start|>' }}")
        == "think"
    )
    assert detect_reasoning_format("{% if add_generation_prompt %}{{ '<think>\\n\\n</think>' }}") == "think"


@pytest.mark.parametrize(
    ("template", "format"),
    [
        ("{% set think_begin_token = '<seed:think>' %}", "seed"),
        ("Draft your thinking: [THINK]Your thoughts.[/THINK]", "mistral"),
        ("Start by writing <|START_THINKING|>", "cohere"),
        (
            "{% if add_generation_prompt %}{{ '<|START_THINKING|>' if reasoning else '<|START_THINKING|><|END_THINKING|>' }}",
            "cohere_open",
        ),
        ("Write your thoughts after 'Here is my thought process:'", "granite"),
        ("between <think></think> and write your response between <response></response>", "granite"),
        ("{{ '<|channel>thought' }}", "gemma"),
        ("'<think>' '</think>' '<answer>'", "hunyuan"),
        ("<response>{{ message.content }}</response><think>", "think"),
    ],
)
def test_family_reasoning_is_detected_from_template(template: str, format: str) -> None:
    assert detect_reasoning_format(template) == format


def test_calls_are_parsed_only_with_tools() -> None:
    assert create_parser("hermes", None, None) is None
    assert create_parser("none", "none", []) is None
    assert create_parser("harmony", "think", None) is not None
    assert create_parser("hermes", "think", None) is not None


@pytest.mark.parametrize("format", PARSERS)
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_required_call_starts_answer(format: str, choice: str) -> None:
    begun = find_call_opening(format, choice)
    parser = create_parser(format, None, [])
    assert parser is not None
    assert [delta for delta in parser.push(begun) if delta.kind == "text"] == []
    if choice == NAMED and format not in ("mistral", "pythonic", "glm"):
        parser = create_parser(format, None, [])
        assert parser is not None
        assert [text for kind, text in parser.push(begun + "}") if kind == "call"] == ["f"]


def test_optional_call_forces_no_prefix() -> None:
    assert (
        find_call_opening("hermes", "auto")
        == find_call_opening("hermes", None)
        == find_call_opening(None, "required")
        == ""
    )
    with pytest.raises(ValueError, match="tool_choice"):
        find_call_opening("hermes", "some")
