"""Completions and models through OpenAI's client."""

import json

import pytest
from openai import AsyncOpenAI, OpenAI

from tests.serving import Running
from tests.texts import client, prompt


@pytest.fixture
def openai(texts: Running) -> OpenAI:
    return client(texts)


def test_gathered_completion(openai: OpenAI) -> None:
    text = prompt()
    answer = openai.completions.create(model="words", prompt=text)
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    [choice] = answer.choices
    assert (choice.index, choice.text, choice.finish_reason) == (0, text, "stop")
    assert answer.usage.completion_tokens == 4


@pytest.mark.parametrize("usage", [False, True])
def test_a_streamed_completion(openai: OpenAI, usage: bool) -> None:
    text = prompt()
    options = {"stream_options": {"include_usage": True}} if usage else {}
    chunks = [*openai.completions.create(model="words", prompt=text, stream=True, **options)]
    if usage:
        last = chunks.pop()
        assert (last.choices, last.usage.completion_tokens) == ([], 4)
    assert "".join(chunk.choices[0].text for chunk in chunks) == text
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 4 + ["stop"]


async def test_the_asynchronous_client(texts: Running) -> None:
    async with AsyncOpenAI(base_url=f"{texts.url}/v1", api_key="none", max_retries=0) as openai:
        text = prompt()
        stream = await openai.completions.create(model="steps", prompt=text, stream=True)
        assert "".join([chunk.choices[0].text async for chunk in stream]) == text
        whole = await openai.completions.create(model="steps", prompt=text)
        assert whole.choices[0].text == text


def test_several_prompts_with_several_choices(openai: OpenAI) -> None:
    first, second = prompt("a b"), prompt("c")
    options = {"model": "words", "prompt": [first, second], "n": 2}
    answer = openai.completions.create(**options)
    expected = [(0, first), (1, first), (2, second), (3, second)]
    assert [(choice.index, choice.text) for choice in answer.choices] == expected
    assert answer.usage.completion_tokens == 10
    found: dict[int, str] = {}
    for chunk in openai.completions.create(**options, stream=True):
        for choice in chunk.choices:
            found[choice.index] = found.get(choice.index, "") + choice.text
    assert sorted(found.items()) == expected


def test_usage_counts_each_prompt_once(openai: OpenAI) -> None:
    """The model counts ten tokens for any prompt."""
    counts = {
        (len(prompts), n): openai.completions.create(model="tokens", prompt=prompts, n=n).usage.prompt_tokens
        for prompts in (["a"], ["a", "b", "c"])
        for n in (1, 2)
    }
    assert counts == {(1, 1): 10, (1, 2): 10, (3, 1): 30, (3, 2): 30}
    [*_, last] = openai.completions.create(
        model="tokens", prompt=["a", "b"], stream=True, stream_options={"include_usage": True}
    )
    assert last.usage.prompt_tokens == 20


@pytest.mark.parametrize("streamed", [False, True])
def test_prompt_is_echoed_on_request(openai: OpenAI, streamed: bool) -> None:
    options = {"model": "words", "prompt": ["a b", "c"], "echo": True}
    answer = openai.completions.create(**options, stream=streamed)
    found = {0: "", 1: ""}
    for choice in (choice for chunk in answer for choice in chunk.choices) if streamed else answer.choices:
        found[choice.index] += choice.text
    assert found == {0: "a ba b", 1: "cc"}


def test_log_probabilities(openai: OpenAI) -> None:
    options = {"model": "tokens", "prompt": "a bc d", "logprobs": 2}
    found = openai.completions.create(**options).choices[0].logprobs
    assert found.tokens == ["a", " bc", " d"]
    assert found.token_logprobs == [-0.5] * 3
    assert found.text_offset == [0, 1, 4]
    assert found.top_logprobs[1] == {" bc": -0.5, " other": -1.5}
    streamed = [
        chunk.choices[0].logprobs
        for chunk in openai.completions.create(**options, stream=True)
        if chunk.choices[0].logprobs
    ]
    assert [token for each in streamed for token in each.tokens] == found.tokens
    assert [offset for each in streamed for offset in each.text_offset] == found.text_offset
    alone = openai.completions.create(**{**options, "logprobs": 0}).choices[0].logprobs
    assert alone.token_logprobs == [-0.5] * 3
    assert openai.completions.create(model="tokens", prompt="a").choices[0].logprobs is None


def test_parameters_reach_the_model(openai: OpenAI) -> None:
    answer = openai.completions.create(
        model="saying", prompt="hi", max_tokens=3, seed=1, extra_body={"repetition_penalty": 1.5}
    )
    found = json.loads(answer.choices[0].text)
    assert found["parameters"] == {"max_tokens": 3, "seed": 1, "repetition_penalty": 1.5}


def test_stop_strings_end_each_choice(openai: OpenAI) -> None:
    answer = openai.completions.create(model="words", prompt=["a b c", "x y b z", "q"], stop=[" b"])
    assert [choice.text for choice in answer.choices] == ["a", "x y", "q"]


def test_list_models(openai: OpenAI) -> None:
    found = {model.id: model for model in openai.models.list()}
    assert {"words", "whole", "steps", "vectors", "versions", "versions:1", "versions:2"} <= found.keys()
    assert "hidden" not in found
    assert found["words"].object == "model"
    assert found["words"].created > 1_700_000_000


@pytest.mark.parametrize("name", ["words", "versions", "versions:1"])
def test_retrieve_model(openai: OpenAI, name: str) -> None:
    assert openai.models.retrieve(name).id == name
