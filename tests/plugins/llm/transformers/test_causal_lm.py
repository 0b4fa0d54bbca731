"""`CausalLM` through every stage of the server, without a port: each text is that of `generate` alone."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

from inferstream.errors import InvalidRequest, ModelError, ModelLoadFailed
from inferstream.testing import InProcess, encode, run
from inferstream.types import InferenceRequest, InferenceResponse
from tests.plugins.llm.transformers import tiny

PROMPTS = [" ".join(tiny.WORDS[: 1 + index % 7] * (1 + index % 5)) for index in range(16)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tiny.write(tmp_path_factory.mktemp("tiny"), prefill_budget=16)


@pytest.fixture(scope="module")
def alone(folder: Path) -> tiny.Alone:
    return tiny.Alone(folder)


@pytest.fixture(scope="module")
def runner(folder: Path) -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def client(folder: Path, runner: asyncio.Runner) -> Iterator[InProcess]:
    served = run(str(folder))
    yield runner.run(served.__aenter__())
    runner.run(served.__aexit__(None, None, None))


def request(prompt: Any = None, **parameters: Any) -> InferenceRequest:
    inputs = {name: parameters.pop(name) for name in ("messages", "tools") if name in parameters}
    if prompt is not None:
        inputs["prompt"] = prompt
    return InferenceRequest(
        inputs=[encode(name, value) for name, value in inputs.items()], parameters=parameters
    )


async def stream(client: InProcess, *asked: Any, **parameters: Any) -> list[InferenceResponse]:
    return [each async for each in client.stream("tiny", request(*asked, **parameters))]


def text_of(responses: list[InferenceResponse]) -> str:
    return "".join(response.outputs[0].data[0] for response in responses)


def tokens_of(responses: list[InferenceResponse]) -> list[int]:
    return [response.parameters.get("token_id") for response in responses]


SAMPLED = {"temperature": 0.8, "top_k": 60, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.2}


def test_sixteen_batched_streams_equal_single_ones(
    client: InProcess, runner: asyncio.Runner, alone: tiny.Alone
) -> None:
    """Half greedy, half at random with seeds; each joins when the one before has its third token."""
    expected = [
        alone.tokens(prompt, 6 + index, index, **SAMPLED) if index % 2 else alone.tokens(prompt, 6 + index)
        for index, prompt in enumerate(PROMPTS)
    ]
    turns = [asyncio.Event() for _ in range(17)]

    async def one(index: int) -> list[InferenceResponse]:
        await turns[index].wait()
        options = {"seed": index, **SAMPLED} if index % 2 else {}
        found = []
        asked = request(PROMPTS[index], max_tokens=6 + index, **options)
        async for response in client.stream("tiny", asked):
            found.append(response)
            if len(found) == 3:
                turns[index + 1].set()
        turns[index + 1].set()
        return found

    async def all_of_them() -> list[list[InferenceResponse]]:
        turns[0].set()
        return await asyncio.gather(*map(one, range(16)))

    for found, tokens, prompt in zip(runner.run(all_of_them()), expected, PROMPTS, strict=True):
        assert tokens_of(found) == tokens
        assert text_of(found) == alone.text(tokens)
        last = found[-1].parameters
        assert last.get("finish_reason") == ("stop" if tokens[-1] == 0 else "length")
        assert last.get("completion_tokens") == len(tokens)
        assert last.get("prompt_tokens") == len(alone.tokenizer(prompt)["input_ids"])


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.3},
        {"temperature": 0.7, "top_k": 5},
        {"temperature": 1.0, "top_p": 0.5},
        {"temperature": 1.0, "min_p": 0.2},
        {"temperature": 1.0, "repetition_penalty": 1.5},
    ],
)
def test_seeded_text_equals_generate(
    client: InProcess, runner: asyncio.Runner, alone: tiny.Alone, options: dict[str, Any]
) -> None:
    found = runner.run(stream(client, "one two", seed=11, max_tokens=30, **options))
    # `generate` chooses among 50 tokens unless told otherwise; here the request says.
    assert tokens_of(found) == alone.tokens("one two", 30, 11, **{"top_k": 0, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 1.3, "seed": 11, "top_k": 9},
        {"presence_penalty": 1.5, "frequency_penalty": 0.7, "repetition_penalty": 1.3},
        {"temperature": 1.0, "seed": 3, "logprobs": True},
    ],
)
def test_stream_continues_after_written_tokens(
    client: InProcess, runner: asyncio.Runner, options: dict[str, Any]
) -> None:
    options = {"max_tokens": 30, "ignore_eos": True, **options}
    whole = runner.run(stream(client, "one two", **options))
    assert len(whole) == 30
    for count in (1, 13, 29):
        written = json.dumps(tokens_of(whole)[:count])
        rest = runner.run(stream(client, "one two", written_token_ids=written, **options))
        assert tokens_of(rest) == tokens_of(whole)[count:]
        assert text_of(rest) == text_of(whole[count:])
        last, expected = dict(rest[-1].parameters.items()), dict(whole[-1].parameters.items())
        assert last.pop("logprob", 0) == pytest.approx(expected.pop("logprob", 0), rel=1e-3)
        assert last == expected


async def test_first_stream_continues_after_written_tokens(folder: Path) -> None:
    written = [index % 50 for index in range(180)]
    async with run(str(folder)) as client:
        rest = await stream(
            client, "one", written_token_ids=json.dumps(written), ignore_eos=True, max_tokens=185
        )
    last = rest[-1].parameters
    assert (len(rest), last.get("completion_tokens"), last.get("finish_reason")) == (5, 185, "length")


def test_unseeded_texts_differ(client: InProcess, runner: asyncio.Runner) -> None:
    texts = {text_of(runner.run(stream(client, "one", temperature=1.5, max_tokens=20))) for _ in range(3)}
    assert len(texts) == 3


def test_openai_penalties_reduce_repetition(client: InProcess, runner: asyncio.Runner) -> None:
    options = {"max_tokens": 60, "ignore_eos": True}
    plain = tokens_of(runner.run(stream(client, "one two", **options)))
    for name in ("presence_penalty", "frequency_penalty"):
        found = tokens_of(runner.run(stream(client, "one two", **{name: 2.0}, **options)))
        assert len(set(found)) >= len(set(plain))
        assert found != plain
    assert len(plain) == 60


def test_log_probabilities(client: InProcess, runner: asyncio.Runner, alone: tiny.Alone) -> None:
    found = runner.run(stream(client, "one two", max_tokens=4, logprobs=True, top_logprobs=3))
    given = alone.tokenizer("one two", return_tensors="pt", return_token_type_ids=False)
    expected = alone.model(**given).logits[0, -1].log_softmax(-1)
    parameters = found[0].parameters
    assert parameters.get("logprob") == pytest.approx(float(expected.max()), abs=1e-4)
    top = json.loads(parameters.get("top_logprobs"))
    assert list(top.values()) == pytest.approx(expected.topk(3).values.tolist(), abs=1e-4)
    assert next(iter(top)) == alone.text([int(expected.argmax())])
    assert runner.run(stream(client, "one", max_tokens=1))[0].parameters.get("logprob") is None


def test_unary_client_gets_complete_text(
    client: InProcess, runner: asyncio.Runner, alone: tiny.Alone
) -> None:
    response = runner.run(client.infer("tiny", request("one two", max_tokens=9)))
    tokens = alone.tokens("one two", 9)
    assert text_of([response]) == alone.text(tokens)
    assert response.parameters.get("completion_tokens") == len(tokens)


def test_messages_are_rendered_with_template(
    client: InProcess, runner: asyncio.Runner, alone: tiny.Alone
) -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    messages = [{"role": "system", "content": "three"}, {"role": "user", "content": parts}]
    found = runner.run(stream(client, messages=json.dumps(messages), max_tokens=5))
    prompt = "<system>three</s><user>one two</s><assistant>"
    assert tokens_of(found) == alone.tokens(prompt, 5)


@pytest.mark.parametrize(
    ("asked", "location", "message"),
    [
        ({"prompt": "one", "temperature": -1}, "temperature", "temperature is 0 or more, not -1"),
        ({"prompt": "one", "top_p": 0}, "top_p", "more than 0"),
        ({"prompt": "one", "seed": "x"}, "seed", "seed is an integer"),
        ({"prompt": "one two " * 200}, "prompt", "maximum context length is 256 tokens"),
        ({"messages": '[{"role": "user", "content": "' + "one " * 300 + '"}]'}, "messages", "256 tokens"),
        ({"prompt": ""}, "prompt", "prompt is empty"),
        ({"messages": "[]"}, "messages", "messages is empty"),
        ({"messages": "{"}, "messages", "JSON list"),
        ({"messages": '["x"]'}, "messages", "object with a role"),
        ({"messages": '[{"role": "robot", "content": ""}]'}, "messages", "no robots"),
        ({"messages": '[{"role": "user", "content": [{"image": 1}]}]'}, "messages", "text only"),
        ({"messages": "[]", "prompt": "one"}, "messages", "either messages or a prompt"),
        ({}, "prompt", "one prompt or messages"),
    ],
)
def test_invalid_requests_are_refused_by_name(
    client: InProcess, runner: asyncio.Runner, asked: dict[str, Any], location: str, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        runner.run(stream(client, asked.pop("prompt", None), **asked))
    assert caught.value.detail[0]["loc"] == [location]


def test_context_length_ends_text(client: InProcess, runner: asyncio.Runner, alone: tiny.Alone) -> None:
    found = runner.run(stream(client, "one two three " * 20, ignore_eos=True))
    count = len(alone.tokenizer("one two three " * 20)["input_ids"])
    assert len(found) == 256 - count
    assert found[-1].parameters.get("finish_reason") == "length"


def test_disconnect_releases_row(client: InProcess, runner: asyncio.Runner) -> None:
    async def leave() -> None:
        for _ in range(40):  # more often than there are rows
            opened = client.stream("tiny", request("one two", ignore_eos=True))
            await anext(opened)
            await opened.aclose()

    runner.run(leave())
    assert len(runner.run(stream(client, "one", max_tokens=3))) == 3


@pytest.mark.parametrize("kind", ["gpt2", "mistral", "qwen2"])
def test_other_architectures_generate(tmp_path: Path, kind: str) -> None:
    """Learned positions, a sliding window, layers with and without one."""
    tiny.write(tmp_path, kind, prefill_budget=16)
    alone = tiny.Alone(tmp_path)

    async def main() -> None:
        async with run(str(tmp_path)) as client:
            texts = await asyncio.gather(*(stream(client, prompt, max_tokens=12) for prompt in PROMPTS))
            for prompt, found in zip(PROMPTS, texts, strict=True):
                assert tokens_of(found) == alone.tokens(prompt, 12)

    asyncio.run(main())


@pytest.mark.parametrize(
    "extra", [{"dtype": "bfloat16"}, {"quantize": "int8"}, {"dtype": "bfloat16", "quantize": "int8"}]
)
def test_bfloat16_and_int8_weights_generate(tmp_path: Path, extra: dict[str, Any]) -> None:
    tiny.write(tmp_path, **extra)
    with run(str(tmp_path)) as client:
        found = client.stream("tiny", request("one two", max_tokens=5, ignore_eos=True))
    assert len(found) == 5


def test_model_configuration_sets_sampling_defaults(tmp_path: Path) -> None:
    tiny.write(tmp_path)
    configuration = {"do_sample": True, "temperature": 1.2, "eos_token_id": [0, 7, 9]}
    (tmp_path / "artefacts" / "generation_config.json").write_text(json.dumps(configuration))
    alone = tiny.Alone(tmp_path)
    with run(str(tmp_path)) as client:
        for seed in range(4):
            found = client.stream("tiny", request("one two", seed=seed, max_tokens=60))
            tokens = alone.tokens("one two", 60, seed)
            assert tokens_of(found) == tokens
            assert (tokens[-1] in (0, 7, 9)) == (found[-1].parameters.get("finish_reason") == "stop")


def test_settings_set_sampling_length_and_template(tmp_path: Path) -> None:
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    sampling = {"temperature": 0.8, "top_k": 60}
    tiny.write(tmp_path, sampling=sampling, max_tokens=7, max_context=64, chat_template=template)
    alone = tiny.Alone(tmp_path)
    with run(str(tmp_path)) as client:
        found = client.stream("tiny", request(messages='[{"role": "user", "content": "one two"}]', seed=3))
        assert tokens_of(found) == alone.tokens("one two", 7, 3, **sampling)
        with pytest.raises(InvalidRequest, match="64 tokens"):
            client.stream("tiny", request("one " * 100))


def test_untrusted_template_has_limits(tmp_path: Path) -> None:
    (tmp_path / ".untrusted").write_text("hf://org/model")
    messages = '[{"role": "user", "content": "one two"}]'
    template = (
        "{% generation %}{% for message in messages %}{{ message['content'] }}{% endfor %}{% endgeneration %}"
    )
    folder = tmp_path / "tiny"
    folder.mkdir()
    tiny.write(folder, chat_template=template)
    alone = tiny.Alone(folder)
    with run(str(folder)) as client:
        found = client.stream("tiny", request(messages=messages, max_tokens=5))
        assert tokens_of(found) == alone.tokens("one two", 5)
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    tiny.write(folder, chat_template=endless)
    with run(str(folder)) as client:
        with pytest.raises(ModelError, match=r"0\.5 s"):
            client.stream("tiny", request(messages=messages))
        assert client.stream("tiny", request("one two", max_tokens=5))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"dtype": "float99"}, '"dtype" in parameters.extra'),
        ({"sampling": {"top_p": 7}}, "top_p is more than 0 and at most 1, not 7"),
        ({"max_contxt": 9}, "max_contxt"),
    ],
)
def test_invalid_settings_fail_load(tmp_path: Path, extra: dict[str, Any], message: str) -> None:
    tiny.write(tmp_path, **extra)
    with pytest.raises(ModelLoadFailed, match=message), run(str(tmp_path)):
        pass


def test_folder_without_model_fails_load_and_hides_path(tmp_path: Path) -> None:
    tiny.write(tmp_path)
    for file in (tmp_path / "artefacts").iterdir():
        file.unlink()
    with pytest.raises(ModelLoadFailed) as caught, run(str(tmp_path)):
        pass
    assert str(tmp_path) not in caught.value.message
