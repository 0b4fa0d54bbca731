"""Chat through OpenAI's client: whole and streamed, one text and several, and what reaches the model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.serving import Running
from tests.texts import client, prompt, said, write_text_models

EXAMPLE = Path(__file__).parents[3] / "examples" / "text-stream"

EMOJI = "grüße 👩‍👩‍👧 und 日本 🙂"


@pytest.fixture
def openai(texts: Running) -> OpenAI:
    return client(texts)


def given(openai: OpenAI, model: str, messages: list, **options: object) -> dict:
    """What a model that says it was given."""
    answer = openai.chat.completions.create(model=model, messages=messages, **options)
    return json.loads(answer.choices[0].message.content)


@pytest.mark.parametrize("prefix", ["/v1", "/openai/v1"])
def test_gathered_chat(texts: Running, prefix: str) -> None:
    text = prompt()
    answer = client(texts, prefix).chat.completions.create(model="words", messages=said(text))
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "words"
    assert answer.created > 1_700_000_000
    [choice] = answer.choices
    assert (choice.index, choice.message.role, choice.message.content) == (0, "assistant", text)
    assert choice.finish_reason == "stop"
    assert (answer.usage.completion_tokens, answer.usage.total_tokens) == (4, 4)


def test_a_streamed_chat(openai: OpenAI) -> None:
    text = prompt()
    chunks = [*openai.chat.completions.create(model="words", messages=said(text), stream=True)]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert [delta.content for delta in deltas if delta.content] == [text.split()[0], " one", " two", " three"]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_is_events_and_done(texts: Running) -> None:
    body = {"model": "words", "messages": said("a b"), "stream": True}
    answer = httpx.post(f"{texts.url}/v1/chat/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.split("\n\n")
    assert events[-1] == ""
    assert events[-2] == "data: [DONE]"
    assert [json.loads(event.removeprefix("data: "))["model"] for event in events[:-2]] == ["words"] * 4


async def test_the_asynchronous_client(texts: Running) -> None:
    async with AsyncOpenAI(base_url=f"{texts.url}/v1", api_key="none", max_retries=0) as openai:
        text = prompt(EMOJI)
        whole = await openai.chat.completions.create(model="characters", messages=said(text))
        assert whole.choices[0].message.content == text
        stream = await openai.chat.completions.create(model="characters", messages=said(text), stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == text
        assert "words" in [model.id async for model in openai.models.list()]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_characters_split_over_items(openai: OpenAI, size: int) -> None:
    options = {"model": "characters", "messages": said(EMOJI), "extra_body": {"size": size}}
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in openai.chat.completions.create(**options, stream=True)
    ]
    assert "".join(pieces) == EMOJI
    assert not any("�" in piece for piece in pieces)
    assert openai.chat.completions.create(**options).choices[0].message.content == EMOJI


def test_requested_usage_comes_last(openai: OpenAI) -> None:
    options = {"include_usage": True}
    stream = openai.chat.completions.create(
        model="tokens", messages=said("a b c"), stream=True, stream_options=options
    )
    *chunks, last = stream
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)
    assert last.choices == []
    assert last.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 10,
        "completion_tokens": 102,
        "total_tokens": 112,
    }


@pytest.mark.parametrize("model", ["words", "blocking-words", "characters", "tokens", "steps"])
@pytest.mark.parametrize("streamed", [False, True])
def test_max_tokens_ends_text(openai: OpenAI, model: str, streamed: bool) -> None:
    text = prompt("b c d e f g h i")
    options = {"model": model, "messages": said(text), "extra_body": {"size": 2}}
    answer = openai.chat.completions.create(**options, max_completion_tokens=3, stream=streamed)
    if streamed:
        chunks = [*answer]
        content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        reason = chunks[-1].choices[0].finish_reason
    else:
        content, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
        assert answer.usage.completion_tokens == 3
    assert content == (text[:6] if model == "characters" else " ".join(text.split()[:3]))
    assert reason == "length"


@pytest.mark.parametrize("model", ["words", "tokens", "steps"])
@pytest.mark.parametrize("max_tokens", [4, 5])
def test_limit_that_is_not_reached(openai: OpenAI, model: str, max_tokens: int) -> None:
    text = prompt()
    answer = openai.chat.completions.create(model=model, messages=said(text), max_tokens=max_tokens)
    assert answer.choices[0].message.content == text


@pytest.mark.parametrize(
    ("stop", "shown", "reason"),
    [
        ("three", "one two ", "stop"),
        (["e four"], "one two thre", "stop"),
        (["o three", "wo t"], "one t", "stop"),
        (["ONE", "four"], "one two three ", "stop"),
        ("five", "one two three four", "stop"),
        ("four five", "one two three four", "stop"),
        ("one", "", "stop"),
    ],
)
@pytest.mark.parametrize("model", ["words", "characters", "steps", "whole"])
@pytest.mark.parametrize("streamed", [False, True])
def test_stop_string_ends_text(
    openai: OpenAI, stop: object, shown: str, reason: str, model: str, streamed: bool
) -> None:
    if model == "whole":
        shown = f"all of {shown}"
    answer = openai.chat.completions.create(
        model=model, messages=said("one two three four"), stop=stop, stream=streamed
    )
    if streamed:
        chunks = [*answer]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == shown
        assert chunks[-1].choices[0].finish_reason == reason
    else:
        assert answer.choices[0].message.content == shown
        assert answer.choices[0].finish_reason == reason


def test_possible_stop_string_prefix_is_held_back(texts: Running) -> None:
    pieces = [
        chunk.choices[0].delta.content
        for chunk in client(texts).chat.completions.create(
            model="characters", messages=said("abacab"), stop=["aba!", "cabx"], stream=True
        )
        if chunk.choices[0].delta.content
    ]
    assert pieces == ["aba", "cab"]


def test_several_choices(openai: OpenAI) -> None:
    answer = openai.chat.completions.create(model="saying", messages=said("hi"), n=3, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    seeds = [json.loads(choice.message.content)["parameters"]["seed"] for choice in answer.choices]
    assert seeds == [7, 8, 9]
    assert answer.usage.completion_tokens == 3


@pytest.mark.parametrize("model", ["words", "characters", "tokens", "steps", "whole", "blocking-words"])
def test_several_streamed_choices(openai: OpenAI, model: str) -> None:
    text = prompt("uno dos tres quatro")
    found, roles, reasons = {}, {}, {}
    for chunk in openai.chat.completions.create(
        model=model, messages=said(text), n=4, stream=True, extra_body={"size": 3}
    ):
        for choice in chunk.choices:
            assert choice.index not in reasons, "nothing comes after the end"
            found[choice.index] = found.get(choice.index, "") + (choice.delta.content or "")
            if choice.delta.role:
                roles[choice.index] = roles.get(choice.index, 0) + 1
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
    expected = f"all of {text}" if model == "whole" else text
    assert found == dict.fromkeys(range(4), expected)
    assert roles == dict.fromkeys(range(4), 1)
    assert reasons == dict.fromkeys(range(4), "stop")


@pytest.mark.parametrize("streamed", [False, True])
def test_choices_end_independently(openai: OpenAI, streamed: bool) -> None:
    """The model would go on for ever."""
    options = {"model": "words", "messages": said(prompt()), "n": 3, "extra_body": {"endless": True}}
    answer = openai.chat.completions.create(**options, stop=["more more"], stream=streamed)
    choices = [choice for chunk in answer for choice in chunk.choices] if streamed else answer.choices
    assert sorted(choice.index for choice in choices if choice.finish_reason == "stop") == [0, 1, 2]


def test_gathered_text_of_predict_only_model(openai: OpenAI) -> None:
    text = prompt()
    answer = openai.chat.completions.create(model="whole", messages=said(text))
    assert answer.choices[0].message.content == f"all of {text}"
    stream = openai.chat.completions.create(model="whole", messages=said(text), stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == f"all of {text}"


def test_log_probabilities(openai: OpenAI) -> None:
    options = {"model": "tokens", "messages": said("a é"), "logprobs": True, "top_logprobs": 2}
    [choice] = openai.chat.completions.create(**options).choices
    assert [found.token for found in choice.logprobs.content] == ["a", " é"]
    assert choice.logprobs.content[1].bytes == [*" é".encode()]
    assert [(each.token, each.logprob) for each in choice.logprobs.content[1].top_logprobs] == [
        (" é", -0.5),
        (" other", -1.5),
    ]
    streamed = [
        found
        for chunk in openai.chat.completions.create(**options, stream=True)
        if chunk.choices[0].logprobs
        for found in chunk.choices[0].logprobs.content
    ]
    assert streamed == choice.logprobs.content


def test_log_probabilities_only_on_request(openai: OpenAI) -> None:
    assert openai.chat.completions.create(model="tokens", messages=said("a b")).choices[0].logprobs is None


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_model_sets_finish_reason(openai: OpenAI, reason: str) -> None:
    options = {"model": "tokens", "messages": said("a b"), "extra_body": {"reason": reason}}
    assert openai.chat.completions.create(**options).choices[0].finish_reason == reason
    assert [*openai.chat.completions.create(**options, stream=True)][-1].choices[0].finish_reason == reason


def test_parameters_reach_the_model(openai: OpenAI) -> None:
    found = given(
        openai,
        "saying",
        said("hi"),
        max_tokens=5,
        temperature=0.5,
        top_p=0.25,
        seed=-3,
        presence_penalty=1,
        frequency_penalty=-2,
        logit_bias={"5": 10},
        user="somebody",
        metadata={"a": "b"},
        extra_body={
            "top_k": 9,
            "min_p": 0.1,
            "guided": "yes",
            "flag": True,
            "nested": {"is": "JSON"},
            "empty": {},
        },
    )
    assert found["inputs"] == {"prompt": ["hi"]}
    assert found["parameters"] == {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.25,
        "seed": -3,
        "presence_penalty": 1,
        "frequency_penalty": -2,
        "logit_bias": '{"5":10}',
        "nested": '{"is":"JSON"}',
        "top_k": 9,
        "min_p": 0.1,
        "guided": "yes",
        "flag": True,
    }


def test_declared_parameters_are_inputs(openai: OpenAI) -> None:
    found = given(
        openai,
        "sampling",
        said("hi"),
        max_tokens=5,
        temperature=1,
        seed=2**40,
        top_p=0.5,
        extra_body={"top_k": 3},
    )
    assert found["inputs"] == {
        "prompt": ["hi"],
        "max_tokens": [5],
        "temperature": [1.0],
        "seed": [2**40],
        "top_k": [3],
    }
    assert found["parameters"] == {"top_p": 0.5}


def test_plain_template(openai: OpenAI) -> None:
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "you"}]},
    ]
    found = given(openai, "saying", messages)
    assert found["inputs"]["prompt"] == ["system: be kind\nuser: hello you\nassistant:"]


def test_settings_template(openai: OpenAI) -> None:
    found = given(openai, "templated", [{"role": "system", "content": "s"}, *said("u")])
    assert found["inputs"]["prompt"] == ["<system>s<user>u<assistant>"]


def test_tokenizer_template_of_folder(openai: OpenAI) -> None:
    found = given(openai, "tokenizer", [{"role": "system", "content": " s "}, *said("u")])
    assert found["inputs"]["prompt"] == ["<s>[system]s</s>[user]u</s>[assistant]"]


def test_messages_images_and_audio_reach_multimodal_model(openai: OpenAI) -> None:
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC/w=="}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
        {"type": "input_audio", "input_audio": {"data": "/w==", "format": "wav"}},
    ]
    found = given(openai, "messages", [{"role": "user", "content": parts}])
    assert found["inputs"]["images"] == ["000102ff", ""]
    assert found["inputs"]["audio"] == ["ff"]
    [message] = json.loads(found["inputs"]["messages"][0])
    assert [part["type"] for part in message["content"]] == ["text", "image", "image", "audio"]


def test_model_by_version(openai: OpenAI) -> None:
    for name in ("versions", "versions:1", "versions:2"):
        answer = openai.chat.completions.create(model=name, messages=said("hi"))
        assert (answer.model, answer.choices[0].message.content) == (name, "all of hi")


def test_tgi_model_name_selects_default_model(openai: OpenAI) -> None:
    text = prompt()
    answer = openai.chat.completions.create(model="tgi", messages=said(text))
    assert answer.choices[0].message.content == text


def test_example_text_model_works_unchanged(tmp_path: Path, serve: Callable[..., Running]) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "models" / "text-model")
    code = tmp_path / "models" / "text-model" / "text_model.py"
    ours = "            output.shape = [1]\n"  # theirs is the codec's own shape, [1, 1]
    assert ours in code.read_text()
    code.write_text(code.read_text().replace(ours, ""))
    running = serve(tmp_path / "models")
    openai = client(running)
    assert [model.id for model in openai.models.list()] == ["text-model"]
    for name in ("text-model", "tgi"):
        stream = openai.chat.completions.create(model=name, messages=said("hello you"), stream=True)
        pieces = [chunk.choices[0].delta.content for chunk in stream if chunk.choices[0].delta.content]
        assert pieces == ["hello", " you"]


def test_keep_alive_comments_are_ignored_by_client(tmp_path: Path, start: Callable[..., Running]) -> None:
    running = start(write_text_models(tmp_path / "models", sse_heartbeat=0.1))
    options = {"model": "words", "messages": said("a b"), "stream": True, "pause": 0.5}
    answer = httpx.post(f"{running.url}/v1/chat/completions", json=options, timeout=20)
    assert any(line.startswith(":") for line in answer.text.splitlines())
    stream = client(running).chat.completions.create(
        model="words", messages=said("a b"), stream=True, extra_body={"pause": 0.5}
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "a b"


def test_gathered_text_is_compressed_if_accepted(texts: Running) -> None:
    text = prompt("long " * 1000)
    body = {"model": "words", "messages": said(text)}
    url = f"{texts.url}/v1/chat/completions"
    answer = httpx.post(url, json=body, headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(text) / 4
    assert answer.json()["choices"][0]["message"]["content"] == text
    plain = httpx.post(url, json=body, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with httpx.stream("POST", url, json={**body, "stream": True}) as streamed:
        assert "content-encoding" not in streamed.headers
        streamed.read()
