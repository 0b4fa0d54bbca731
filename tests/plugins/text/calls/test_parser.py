"""However an output is split, what is read of it is what it means."""

import json
import os
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from inferstream.plugins.text.calls.formats import create_parser
from inferstream.plugins.text.calls.parser import HELD, Delta
from tests.plugins.text.calls.outputs import FORMATS, TOOLS, Truth

OUTPUTS = int(os.environ.get("SPLIT_OUTPUTS", "25"))
MANY = 100


def parser(format: str) -> Any:
    return (
        create_parser("hermes", "think", TOOLS)
        if format == "thinking"
        else create_parser(format, None, TOOLS)
    )


def read(format: str, pieces: Iterable[str]) -> list[Delta]:
    """The deltas of a stream, neighbours of a kind joined."""
    reader = parser(format)
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += reader.push(piece)
    deltas += reader.finish()
    joined: list[Delta] = []
    for delta in deltas:
        if joined and joined[-1].kind == delta.kind != "call":
            joined[-1] = Delta(delta.kind, joined[-1].text + delta.text)
        else:
            joined.append(delta)
    return joined


def meant(deltas: Sequence[Delta]) -> Truth:
    truth: Truth = []
    for kind, text in deltas:
        if kind == "id":
            continue
        if kind == "call":
            truth.append((kind, (text, {})))
        elif kind == "arguments":
            truth[-1] = ("call", (truth[-1][1][0], json.loads(text)))
        else:
            truth.append((kind, text))
    return truth


def split(random: random.Random, text: str) -> list[str]:
    places = sorted(random.choices(range(len(text) + 1), k=random.randint(2, 40)))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


def hold(format: str, text: str, made: random.Random) -> list[Delta]:
    """What a text means, however it is split."""
    whole = read(format, [text])
    for at in range(len(text) + 1):
        assert read(format, [text[:at], text[at:]]) == whole, (text, at)
    for _ in range(MANY):
        pieces = split(made, text)
        assert read(format, pieces) == whole, pieces
    assert read(format, text) == whole
    return whole


@pytest.mark.parametrize("format", FORMATS)
def test_calls_are_parsed_for_every_split(format):
    made = random.Random(f"splits {format}")
    for _ in range(OUTPUTS):
        text, truth = FORMATS[format](made)
        assert meant(hold(format, text, made)) == truth, text


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_output_is_parsed_equally_for_every_split(format):
    made = random.Random(f"damaged {format}")
    for _ in range(OUTPUTS):
        text, _ = FORMATS[format](made)
        begin = made.randrange(len(text) + 1)
        hold(
            format,
            text[:begin] + made.choice(["", "{", '"', "<", "]"]) + text[begin + made.randrange(9) :],
            made,
        )


MALFORMED = {
    "hermes": [
        "<tool_call>no</tool_call>",
        '<tool_call>{"name": "no tool"}</tool_call>',
        "a <tool_call> b",
        '<tool_call>{"na',
    ],
    "mistral": ["[TOOL_CALLS]", "[TOOL_CALLS][1]", "[TOOL_CALLS]f[ARGS]7", '[TOOL_CALLS][{"name": 1}]'],
    "llama": ['{"answer": {"x": 1}}', "<|python_tag|>print(1)", '{"name": "Bob"}', "{", " "],
    "pythonic": ["[1, 2]", "[f(1)]", "[f(a=b)]", "[f(a='x", "[link](http://x)", "[f(**{})]"],
    "qwen_coder": ["<tool_call>\n<fun>", "<tool_call>", "<tool_call>\n{}"],
    "harmony": ["plain", "<|channel|>", "<|channel|><b><|message|>x", "<|start|>a<|start|>b"],
    "thinking": ["a <think>b</think>", "<thin", "<thing>"],
}


@pytest.mark.parametrize(
    ("format", "text"), [(format, text) for format in MALFORMED for text in MALFORMED[format]]
)
def test_malformed_call_is_text(format, text):
    assert hold(format, text, random.Random(1)) == [Delta("text", text)]


def test_arguments_are_streamed():
    reader = parser("hermes")
    assert reader.push('<tool_call>{"name": "f", "arguments": {"a": "x') == [
        Delta("call", "f"),
        Delta("arguments", '{"a": "x'),
    ]
    assert reader.push("yz") == [Delta("arguments", "yz")]
    assert reader.push('"}}</tool_call>') == [Delta("arguments", '"}')]
    assert reader.finish() == []


def test_text_after_broken_arguments_is_text():
    text = '<tool_call>{"name": "f", "arguments": {"a": 1] and more'
    assert read("hermes", [text]) == [
        Delta("call", "f"),
        Delta("arguments", '{"a": 1'),
        Delta("text", "] and more"),
    ]
    text = "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\noh"
    assert read("qwen_coder", [text]) == [
        Delta("call", "f"),
        Delta("arguments", '{"n": 1}'),
        Delta("text", "oh"),
    ]


def test_unterminated_reasoning_is_reasoning():
    assert read("thinking", ["<think>a", "b</thi"]) == [Delta("reasoning", "ab</thi")]


ENDLESS = [
    '<tool_call>{"a": "',
    "<tool_call>",
    "[TOOL_CALLS]",
    '{"a": "',
    "[f(a='",
    "<|channel|>a",
    "<think>",
    " ",
]
ENDLESS += ["<tool_call><function=f><parameter=a>", '<tool_call>{"name": "f", "arguments": {']


@pytest.mark.parametrize("text", ENDLESS)
def test_held_back_text_is_bounded(text):
    for format in FORMATS:
        reader, given = parser(format), 0
        for _ in range(3 * HELD // 64):
            given += sum(len(delta.text) for delta in reader.push(text.ljust(64)))
            text = "x" if text.strip() else " "
            assert len(getattr(reader, "_text", "")) <= HELD + 64
