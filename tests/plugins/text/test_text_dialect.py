"""What the dialects of text have in common, asked over ASGI."""

import asyncio
import json

import httpx
import pytest

from inferstream import InferenceResponse, MLModel, ModelSettings, ResponseOutput, StringCodec, Token, Usage
from inferstream.plugins.text.fields import DEEPEST
from inferstream.testing import run


class Words(MLModel):
    gives_logprobs = True

    async def predict_stream(self, payloads):
        async for payload in payloads:
            [prompt] = StringCodec.decode_input(payload.inputs[0])
            words = prompt.split(" ")
            for number, word in enumerate(words, 1):
                yield Token(f"{word} ", logprob=-1.0, usage=Usage(len(words), number))
                await asyncio.sleep(0)


def words(name="words", **settings):
    inputs = [{"name": "prompt", "datatype": "BYTES", "shape": [1]}]
    outputs = [{"name": "text", "datatype": "BYTES", "shape": [1]}]
    return Words(ModelSettings(implementation=Words, name=name, inputs=inputs, outputs=outputs, **settings))


class Asking:
    """Sends requests to models in this process."""

    def __init__(self, *models):
        self._run = run(list(models))

    async def __aenter__(self):
        app = (await self._run.__aenter__()).application
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app.asgi), base_url="http://test")
        return self

    async def __aexit__(self, *exit):
        await self.client.aclose()
        await self._run.__aexit__(*exit)

    async def get(self, path):
        return await self.client.get(path)

    async def post(self, path, **body):
        return await self.client.post(path, json={"model": "words", **body})

    async def chat(self, content="a b", **fields):
        message = {"role": "user", "content": content}
        return await self.post("/v1/chat/completions", messages=[message], **fields)

    async def events(self, path, **body):
        text = (await self.post(path, stream=True, **body)).text
        return [json.loads(event[6:]) for event in text.split("\n\n")[:-2]]


NESTED = json.loads("[" * DEEPEST + "]" * DEEPEST)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a", "more": NESTED}]}, 400),
        ("/v1/completions", {"prompt": "a", "logit_bias": {"1": NESTED}}, 400),
        ("/v1/responses", {"input": "a", "text": {"format": {"type": "text", "more": NESTED}}}, 400),
        ("/generate", {"inputs": "a", "parameters": {"grammar": {"value": NESTED}}}, 422),
    ],
)
async def test_deeply_nested_request_is_refused(path, body, status):
    async with Asking(words()) as asking:
        response = await asking.post(path, **body)
        assert (response.status_code, "nested deeper" in response.text) == (status, True)


async def test_hidden_model_is_not_found():
    async with Asking(words(), words("hidden", openai=False)) as asking:
        for response in (
            await asking.chat(model="hidden"),
            await asking.post("/generate", model="hidden", prompt="a"),
            await asking.get("/v1/models/hidden"),
        ):
            assert (response.status_code, "not found" in response.text) == (404, True)
        assert (await asking.get("/v2/models/hidden/ready")).status_code == 200


class Batches(MLModel):
    """Returns how many texts came together."""

    async def predict(self, payload):
        count = payload.inputs[0].shape[0]
        text = ResponseOutput(name="text", datatype="BYTES", shape=[count, 1], data=[str(count)] * count)
        return InferenceResponse(model_name="words", outputs=[text])


async def test_choices_of_batching_model_are_batched():
    tensor = {"datatype": "BYTES", "shape": [-1, 1]}
    settings = ModelSettings(
        implementation=Batches,
        name="words",
        inputs=[{"name": "prompt", **tensor}],
        outputs=[{"name": "text", **tensor}],
        max_batch_size=3,
        max_batch_time=5,
    )
    async with Asking(Batches(settings)) as asking:
        for streamed in (False, True):
            response = await asking.post("/v1/completions", prompt=["a", "b", "c"], stream=streamed)
            assert response.text.count('"text":"2"') == 2  # the first text does not wait for the others
