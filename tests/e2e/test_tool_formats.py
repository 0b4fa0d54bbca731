"""Models that write calls and reasoning as text, and the official clients that read them."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import ollama
import openai
import pytest

from tests.serving import Running, write_model

CODE = '''
import json
from collections.abc import AsyncIterator

from inferstream import InferenceRequest, MLModel


def text(request, name):
    [tensor] = [each for each in request.inputs if each.name == name]
    value = tensor.data.flat()[0]
    return value if isinstance(value, str) else bytes(value).decode()


class Scripted(MLModel):
    """Writes the last message, three characters at a time."""

    async def predict_stream(self, requests: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        async for request in requests:
            script = json.loads(text(request, "messages"))[-1]["content"]
            for at in range(0, len(script), 3):
                yield script[at : at + 3]
'''

OUTPUTS = {
    "hermes": (
        "<think>\nIt rains?</think>\n\nLet me see.<tool_call>\n"
        '{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>\n<tool_call>\n'
        '{"name": "time", "arguments": {}}\n</tool_call>'
    ),
    "mistral": 'Let me see.[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Zürich"}}, '
    '{"name": "time", "arguments": {}}]',
    "llama": 'Let me see.<|python_tag|>{"name": "weather", "parameters": {"city": "Zürich"}}; '
    '{"name": "time", "parameters": {}}',
    "qwen_coder": "Let me see.<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</parameter>\n</function>\n"
    "</tool_call>\n<tool_call>\n<function=time>\n</function>\n</tool_call>",
    "harmony": "<|channel|>analysis<|message|>It rains?<|end|><|start|>assistant<|channel|>commentary<|message|>"
    "Let me see.<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
    '{"city": "Zürich"}<|call|><|start|>assistant<|channel|>commentary to=functions.time<|message|>{}<|call|>',
    "pythonic": "[weather(city='Zürich'), time()]",
    "kimi": "Let me see.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
    '{"city": "Zürich"}<|tool_call_end|><|tool_call_begin|>functions.time:1<|tool_call_argument_begin|>{}<|tool_call_end|>'
    "<|tool_calls_section_end|>",
    "glm": "Let me see.<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</arg_value>\n</tool_call>"
    "<tool_call>time\n</tool_call>",
    "deepseek_v32": 'Let me see.<｜DSML｜function_calls>\n<｜DSML｜invoke name="weather">\n<｜DSML｜parameter name="city" '
    'string="true">Zürich</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="time">\n</｜DSML｜invoke>\n'
    "</｜DSML｜function_calls>",
    "gemma": '<|channel>thought\nIt rains?<channel|>Let me see.<|tool_call>call:weather{city:<|"|>Zürich<|"|>}<tool_call|>'
    "<|tool_call>call:time{}<tool_call|>",
    "nemotron": 'Let me see.<TOOLCALL>[{"name": "weather", "arguments": {"city": "Zürich"}}, '
    '{"name": "time", "arguments": {}}]</TOOLCALL>',
    "hunyuan": "<think>It rains?</think><answer>Let me see.</answer>"
    '<tool_calls>[{"name": "weather", "arguments": {"city": "Zürich"}}, {"name": "time", "arguments": {}}]</tool_calls>',
    "cohere": '<|START_RESPONSE|>Let me see.<|END_RESPONSE|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "weather", '
    '"parameters": {"city": "Zürich"}},\n{"tool_call_id": "1", "tool_name": "time", "parameters": {}}]<|END_ACTION|>',
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTIONS = [{"name": name, "description": "d", "parameters": SCHEMA} for name in ("weather", "time")]
TOOLS: Any = [{"type": "function", "function": each} for each in FUNCTIONS]
CALLS = [("weather", {"city": "Zürich"}), ("time", {})]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("formats") / "models"
    optional = {"parameters": {"optional": True}}
    inputs = [
        {"name": "messages", "datatype": "BYTES", "shape": [1]},
        {"name": "tools", "datatype": "BYTES", "shape": [1], **optional},
    ]
    for format in OUTPUTS:
        write_model(
            folder,
            format,
            f"{format}_code.Scripted",
            CODE,
            name=format,
            inputs=inputs,
            outputs=[{"name": "text", "datatype": "BYTES", "shape": [1]}],
            tool_format=format,
            reasoning_format={
                "hermes": "think",
                "cohere": "cohere",
                "gemma": "gemma",
                "hunyuan": "hunyuan",
            }.get(format),
        )
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def said(format: str) -> list[Any]:
    return [{"role": "user", "content": OUTPUTS[format]}]


def text_of(format: str) -> str:
    return "" if format == "pythonic" else "Let me see."


@pytest.fixture(scope="module")
def client(serving: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("format", OUTPUTS)
def test_chat_gathered_and_streamed(client: openai.OpenAI, format: str) -> None:
    asked: dict[str, Any] = {"model": format, "messages": said(format), "tools": TOOLS}
    [choice] = client.chat.completions.create(**asked).choices
    message = choice.message
    assert choice.finish_reason == "tool_calls"
    assert [
        (each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls or []
    ] == CALLS
    assert len({each.id for each in message.tool_calls or []}) == 2
    assert (message.content or "") == text_of(format)
    thought = "It rains?" if format in ("hermes", "harmony", "gemma", "hunyuan") else None
    assert getattr(message, "reasoning_content", None) == thought

    text, thoughts, reason = "", "", None
    calls: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(**asked, stream=True):
        [piece] = chunk.choices
        text += piece.delta.content or ""
        thoughts += getattr(piece.delta, "reasoning_content", None) or ""
        reason = piece.finish_reason or reason
        for call in piece.delta.tool_calls or []:
            entry = calls.setdefault(call.index, ["", ""])
            entry[0] += call.function.name or ""
            entry[1] += call.function.arguments or ""
    assert (text, thoughts, reason) == (text_of(format), thought or "", "tool_calls")
    assert [[each.function.name, each.function.arguments] for each in message.tool_calls or []] == [
        *calls.values()
    ]


def test_tool_choice_none_keeps_text(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "mistral",
        "messages": said("mistral"),
        "tools": TOOLS,
        "tool_choice": "none",
    }
    [choice] = client.chat.completions.create(**asked).choices
    assert (choice.message.content, choice.message.tool_calls) == (OUTPUTS["mistral"], None)


@pytest.mark.parametrize("format", OUTPUTS)
def test_single_call_if_parallel_calls_are_disabled(client: openai.OpenAI, format: str) -> None:
    asked: dict[str, Any] = {
        "model": format,
        "messages": said(format),
        "tools": TOOLS,
        "parallel_tool_calls": False,
    }
    [choice] = client.chat.completions.create(**asked).choices
    assert [each.function.name for each in choice.message.tool_calls or []] == ["weather"]
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("format", OUTPUTS)
def test_responses_gathered_and_streamed(client: openai.OpenAI, format: str) -> None:
    tools: Any = [{"type": "function", "strict": False, **each} for each in FUNCTIONS]
    asked: dict[str, Any] = {"model": format, "input": OUTPUTS[format], "tools": tools}
    streamed = list(client.responses.create(**asked, stream=True))
    for response in (client.responses.create(**asked), streamed[-1].response):
        calls = [item for item in response.output if item.type == "function_call"]
        assert [(each.name, json.loads(each.arguments)) for each in calls] == CALLS
        assert response.output_text == text_of(format)


@pytest.mark.parametrize("format", OUTPUTS)
def test_anthropic_gathered_and_streamed(serving: Running, format: str) -> None:
    tools: Any = [{"name": each["name"], "input_schema": SCHEMA} for each in FUNCTIONS]
    asked: dict[str, Any] = {"model": format, "max_tokens": 1000, "messages": said(format), "tools": tools}
    with anthropic.Anthropic(base_url=serving.url, api_key="none", max_retries=0) as client:
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        whole = client.messages.create(**asked)
    for message in (whole, streamed):
        assert [(each.name, each.input) for each in message.content if each.type == "tool_use"] == CALLS
        assert "".join(each.text for each in message.content if each.type == "text") == text_of(format)
        assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("format", OUTPUTS)
def test_ollama(serving: Running, format: str) -> None:
    with ollama.Client(host=serving.url) as client:
        whole = client.chat(model=format, messages=said(format), tools=TOOLS)
        lines = [*client.chat(model=format, messages=said(format), tools=TOOLS, stream=True)]
    assert "".join(line.message.content or "" for line in lines) == whole.message.content == text_of(format)
    for calls in (
        whole.message.tool_calls,
        [call for line in lines for call in line.message.tool_calls or []],
    ):
        assert [(each.function.name, each.function.arguments) for each in calls or []] == CALLS
