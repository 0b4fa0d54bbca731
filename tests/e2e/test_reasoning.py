"""Reasoning, stop strings and usage in every API for chats, as the official clients read them."""

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from tests.serving import Running, write_model

CODE = '''
from collections.abc import AsyncIterator

from inferstream import InferenceRequest, MLModel, Token, Usage

ANSWER = "</think>\\n\\nIt is 42. Question: no"
HARMONY = "<|channel|>analysis<|message|>A Question: 6*7<|end|><|start|>assistant<|channel|>final<|message|>"
TEXTS = {
    "think": "<think>\\nA Question: 6*7" + ANSWER,
    "worker": "<think>A Question: 6*7" + ANSWER,
    "opened": "A Question: 6*7" + ANSWER,
    "templated": "A Question: 6*7" + ANSWER,
    "harmony": HARMONY + "It is 42. Question: no",
}


class Scripted(MLModel):
    """Writes its text, three characters at a time."""

    async def predict_stream(self, requests: AsyncIterator[InferenceRequest]) -> AsyncIterator[Token]:
        async for request in requests:
            text = TEXTS[self.name]
            for at in range(0, len(text), 3):
                yield Token(text[at : at + 3], usage=None if at else Usage(7))
'''

SWITCH = """{%- for message in messages %}{{- message.content }}{%- endfor %}
{%- if add_generation_prompt %}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}"""

MODELS: dict[str, dict[str, Any]] = {
    "think": {"reasoning_format": "think"},
    "worker": {"reasoning_format": "think", "parallel_workers": 1},
    "opened": {"reasoning_format": "think_open"},
    "templated": {"chat_template": SWITCH},
    "harmony": {"tool_format": "harmony"},
}

SAID: Any = [{"role": "user", "content": "6*7?"}]
Told = tuple[str, str, int]
"""The reasoning, the text and the number of tokens of the prompt."""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("reasoning") / "models"
    for name, settings in MODELS.items():
        tensor = {"name": "prompt" if name == "templated" else "messages", "datatype": "BYTES", "shape": [1]}
        outputs = [{"name": "text", "datatype": "BYTES", "shape": [1]}]
        code = f"{name}_code.Scripted"
        write_model(folder, name, code, CODE, name=name, inputs=[tensor], outputs=outputs, **settings)
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat(url: str, model: str, stop: list[str] | None) -> Told:
    with openai_client(url) as client:
        answer = client.chat.completions.create(model=model, messages=SAID, stop=stop)
    message, usage = answer.choices[0].message, answer.usage
    assert usage is not None
    assert answer.choices[0].finish_reason == "stop"
    return getattr(message, "reasoning_content", None) or "", message.content or "", usage.prompt_tokens


def chat_stream(url: str, model: str, stop: list[str] | None) -> Told:
    thought, text, tokens = "", "", 0
    with openai_client(url) as client:
        options: Any = {"include_usage": True}
        for chunk in client.chat.completions.create(
            model=model, messages=SAID, stop=stop, stream=True, stream_options=options
        ):
            for choice in chunk.choices:
                thought += getattr(choice.delta, "reasoning_content", None) or ""
                text += choice.delta.content or ""
            tokens = chunk.usage.prompt_tokens if chunk.usage else tokens
    return thought, text, tokens


def _response(response: Any, field: str) -> Told:
    reasoning, message = response.output
    assert (reasoning.type, message.type) == ("reasoning", "message")
    [part] = getattr(reasoning, field)
    return part.text, response.output_text, response.usage.input_tokens


def response(url: str, model: str, stop: list[str] | None) -> Told:
    with openai_client(url) as client:
        made = client.responses.create(
            model=model, input="6*7?", reasoning={"summary": "auto"}, extra_body={"stop": stop}
        )
    return _response(made, "summary")


def response_stream(url: str, model: str, stop: list[str] | None) -> Told:
    with openai_client(url) as client:
        events = [
            *client.responses.create(
                model=model,
                input="6*7?",
                reasoning={"effort": "low"},
                stream=True,
                extra_body={"stop": stop},
            )
        ]
    last: Any = events[-1]
    told = _response(last.response, "content")
    thought = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert (thought, text) == told[:2]
    return told


ASKED: dict[str, Any] = {"messages": SAID, "max_tokens": 2000}
ENABLED: Any = {"type": "enabled", "budget_tokens": 1024}


def _message(message: Any, stop: list[str] | None) -> Told:
    thinking, text = message.content
    assert (thinking.type, text.type) == ("thinking", "text")
    assert thinking.signature
    assert message.stop_reason == ("stop_sequence" if stop else "end_turn")
    return thinking.thinking, text.text, message.usage.input_tokens


def message(url: str, model: str, stop: list[str] | None) -> Told:
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        made = client.messages.create(model=model, thinking=ENABLED, stop_sequences=stop or [], **ASKED)
    return _message(made, stop)


def message_stream(url: str, model: str, stop: list[str] | None) -> Told:
    with (
        anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client,
        client.messages.stream(model=model, thinking=ENABLED, stop_sequences=stop or [], **ASKED) as stream,
    ):
        return _message(stream.get_final_message(), stop)


def _lines(lines: Any) -> Told:
    thought, text, tokens = "", "", 0
    for line in lines:
        said = getattr(line, "message", line)
        thought += said.thinking or ""
        text += (said.content if said is not line else line.response) or ""
        tokens = line.prompt_eval_count or tokens
    return thought, text, tokens


def local(stream: bool, generate: bool) -> Callable[[str, str, list[str] | None], Told]:
    def ask(url: str, model: str, stop: list[str] | None) -> Told:
        options = {"stop": stop} if stop else {}
        with ollama.Client(host=url) as client:
            more: Any = {"model": model, "think": True, "stream": stream, "options": options}
            asked = client.generate(prompt="6*7?", **more) if generate else client.chat(messages=SAID, **more)
            return _lines(asked if stream else [asked])

    return ask


APIS: dict[str, Callable[[str, str, list[str] | None], Told]] = {
    "chat": chat,
    "chat stream": chat_stream,
    "response": response,
    "response stream": response_stream,
    "message": message,
    "message stream": message_stream,
    "Ollama": local(False, False),
    "Ollama stream": local(True, False),
    "Ollama generate": local(False, True),
    "Ollama generate stream": local(True, True),
}


@pytest.mark.parametrize("stop", [None, ["Question:"]], ids=["free", "stopped"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("api", APIS)
def test_reasoning_is_separate_and_answer_stops(
    serving: Running, api: str, model: str, stop: list[str] | None
) -> None:
    text = "It is 42. " if stop else "It is 42. Question: no"
    assert APIS[api](serving.url, model, stop) == ("A Question: 6*7", text, 7)


@pytest.mark.parametrize("model", MODELS)
def test_usage_counts_reasoning_tokens(serving: Running, model: str) -> None:
    counts = []
    with openai_client(serving.url) as client:
        whole = client.chat.completions.create(model=model, messages=SAID).usage
        options: Any = {"include_usage": True}
        chunks = [
            *client.chat.completions.create(model=model, messages=SAID, stream=True, stream_options=options)
        ]
        for usage in (whole, chunks[-1].usage):
            assert usage is not None
            assert usage.completion_tokens_details is not None
            counts.append((usage.completion_tokens_details.reasoning_tokens, usage.completion_tokens))
        answer = client.responses.create(model=model, input="6*7?").usage
        events: Any = [*client.responses.create(model=model, input="6*7?", stream=True)]
        for told in (answer, events[-1].response.usage):
            assert told is not None
            counts.append((told.output_tokens_details.reasoning_tokens, told.output_tokens))
    assert len(set(counts)) == 1
    # Of 15 characters, three at a time, some with a part of a marker.
    assert 5 <= (counts[0][0] or 0) <= 8 < counts[0][1]


def test_reasoning_is_omitted_by_default(serving: Running) -> None:
    with anthropic.Anthropic(base_url=serving.url, api_key="none", max_retries=0) as client:
        for thinking in ({"type": "disabled"}, {"type": "adaptive", "display": "omitted"}, None):
            more: Any = {} if thinking is None else {"thinking": thinking}
            made = client.messages.create(model="think", **ASKED, **more)
            assert [block.type for block in made.content] == ["text"]
    with openai_client(serving.url) as client:
        assert [item.type for item in client.responses.create(model="think", input="6*7?").output] == [
            "message"
        ]
    with ollama.Client(host=serving.url) as client:
        quiet = client.chat(model="think", messages=SAID, think=False)
        assert (quiet.message.thinking, quiet.message.content) == (None, "It is 42. Question: no")


def test_invalid_reasoning_effort_is_named(serving: Running) -> None:
    asked = {"model": "think", "messages": SAID, "max_tokens": 9, "thinking": {"type": "always"}}
    answer = httpx.post(f"{serving.url}/v1/messages", json=asked)
    assert answer.status_code == 400
    assert "thinking.type" in answer.text


def test_ollama_lists_thinking_capability(serving: Running) -> None:
    with ollama.Client(host=serving.url) as client:
        assert "thinking" in (client.show("opened").capabilities or [])
