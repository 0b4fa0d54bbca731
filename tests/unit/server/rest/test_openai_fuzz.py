"""Whatever a client of the routes of texts sends is answered or refused, and neither fails the server nor hangs it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream import Application, InferenceRequest, InferenceResponse, MLModel, ModelSettings
from inferstream.codecs import NumpyCodec, StringCodec
from tests.examples import examples

FIELDS = (
    ("model", "messages", "prompt", "input", "n", "stream", "stream_options", "stop", "max_tokens"),
    ("max_completion_tokens", "temperature", "top_p", "seed", "logprobs", "top_logprobs", "logit_bias"),
    ("tools", "tool_choice", "response_format", "suffix", "echo", "best_of", "user", "presence_penalty"),
    ("instructions", "text", "max_output_tokens", "store", "include", "reasoning", "previous_response_id"),
    ("encoding_format", "dimensions", "top_k", "priority", "timeout", "content_type", "headers", "id"),
    ("system", "stop_sequences", "output_config", "metadata", "thinking", "options", "format", "images"),
    ("raw", "think", "template", "keep_alive", "query", "documents", "texts", "top_n", "return_documents"),
    ("text_1", "text_2", "rank_fields", "return_text"),
)

TEXT = {"datatype": "BYTES", "shape": [1]}


class Echo(MLModel):
    gives_logprobs = True

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        request = await anext(payloads)
        for word in StringCodec.decode_input(request.inputs[0])[0].split(" "):
            yield word


class Vectors(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        [tensor] = payload.inputs
        lengths = np.array([[len(text)] for text in StringCodec.decode_input(tensor)], np.float32)
        output = NumpyCodec.encode_output("output-0", lengths)
        return InferenceResponse(model_name=self.name, outputs=[output])


class Ranks(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        _, documents = payload.inputs
        scores = np.array([float(len(text)) for text in StringCodec.decode_input(documents)])
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("scores", scores)])


def models() -> list[MLModel]:
    optional = {"parameters": {"optional": True}}
    everything = [
        {"name": "messages", **TEXT},
        {"name": "tools", **TEXT, **optional},
        {"name": "response_format", **TEXT, **optional},
        {"name": "images", "datatype": "BYTES", "shape": [-1], **optional},
        {"name": "temperature", "datatype": "FP32", "shape": [1], **optional},
        {"name": "top_k", "datatype": "INT32", "shape": [1], **optional},
        {"name": "max_tokens", "datatype": "INT32", "shape": [1], **optional},
        {"name": "logit_bias", "datatype": "BYTES", "shape": [1], **optional},
    ]
    text = [{"name": "text", **TEXT}]
    return [
        Echo(
            ModelSettings(name="echo", implementation=Echo, inputs=[{"name": "prompt", **TEXT}], outputs=text)
        ),
        Echo(
            ModelSettings(
                name="all", implementation=Echo, inputs=everything, outputs=text, input_validation="strict"
            )
        ),
        Ranks(
            ModelSettings(
                name="ranks",
                implementation=Ranks,
                inputs=[{"name": "query", **TEXT}, {"name": "texts", "datatype": "BYTES", "shape": [-1]}],
                outputs=[{"name": "scores", "datatype": "FP64", "shape": [-1]}],
            )
        ),
        Vectors(
            ModelSettings(
                name="vectors",
                implementation=Vectors,
                inputs=[{"name": "text", "datatype": "BYTES", "shape": [-1]}],
                outputs=[{"name": "output-0", "datatype": "FP32", "shape": [-1, 1]}],
            )
        ),
    ]


class Server:
    """An application on a loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.application = Application(models())
        self.runner.run(self.application.start())
        transport = httpx.ASGITransport(self.application.asgi)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://server")

    def post(self, path: str, body: bytes) -> httpx.Response:
        async def post() -> httpx.Response:
            async with asyncio.timeout(20):
                return await self.client.post(path, content=body)

        return self.runner.run(post())

    def stop(self) -> None:
        self.runner.run(self.application.stop())
        self.runner.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, 2, -1, 2**31, 2**63, 2**64, 10**30]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["echo", "all", "vectors", "user", "a b c", "json_object", "data:image/png;base64,AA=="]),
)

BLOCKS = ("image", "document", "tool_use", "tool_result", "thinking")

source = st.one_of(
    scalars,
    st.fixed_dictionaries({"type": st.sampled_from(["base64", "text", "url"])}, optional={"data": scalars}),
)

content = st.one_of(
    st.text(max_size=20),
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "image_url", "input_audio", "refusal", "x", *BLOCKS])},
            optional={
                "text": scalars,
                "image_url": scalars,
                "input_audio": scalars,
                "refusal": scalars,
                "source": source,
                "input": source,
                "id": scalars,
                "name": scalars,
                "tool_use_id": scalars,
            },
        ),
        max_size=3,
    ),
    scalars,
)

message = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": content},
        optional={"name": scalars, "tool_calls": scalars, "tool_call_id": scalars},
    ),
    scalars,
)

values = st.recursive(
    st.one_of(scalars, message),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["type", "include_usage", "function", "name", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)

good_message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant"]),
        "content": st.one_of(st.text(max_size=20), st.just([{"type": "text", "text": "x"}])),
    }
)

right = {
    "messages": st.one_of(st.lists(good_message, min_size=1, max_size=3), st.lists(message, max_size=3)),
    "prompt": st.one_of(st.text(max_size=20), st.lists(st.text(max_size=5), min_size=1, max_size=3)),
    "input": st.one_of(
        st.text(max_size=20),
        st.lists(st.text(max_size=5), min_size=1, max_size=3),
        st.lists(good_message, min_size=1, max_size=3),
        st.lists(message, max_size=3),
    ),
    "max_tokens": st.sampled_from([1, 100]),
    "query": st.text(max_size=20),
    "documents": st.lists(st.text(max_size=5), min_size=1, max_size=3),
    "text_1": st.text(max_size=20),
    "text_2": st.lists(st.text(max_size=5), min_size=1, max_size=3),
}

options = {"stream": st.booleans(), "n": st.sampled_from([1, 2, 3])}

anything = st.dictionaries(st.sampled_from([name for names in FIELDS for name in names]), values, max_size=3)

MODELS = {
    "/v1/chat/completions": ["echo", "all"],
    "/v1/completions": ["echo"],
    "/v1/embeddings": ["vectors"],
    "/v1/responses": ["echo", "all"],
    "/v1/messages": ["echo", "all"],
    "/v1/messages/count_tokens": ["echo", "all"],
    "/api/chat": ["echo", "all"],
    "/api/generate": ["echo", "all"],
    "/api/embed": ["vectors"],
    "/rerank": ["ranks"],
    "/score": ["ranks"],
}

ERRORS = {
    "/v1/messages": {"type", "error"},
    "/v1/messages/count_tokens": {"type", "error"},
    "/api/chat": {"error"},
    "/api/generate": {"error"},
    "/api/embed": {"error"},
    "/rerank": {"message", "error", "error_type"},
    "/score": {"message", "error", "error_type"},
}
"""The keys of errors, where they are not OpenAI's."""

ENDS = {"/v1/responses": "event: response.completed", "/v1/messages": "event: message_stop"}
"""What is in the last event of a stream, where it is not OpenAI's."""


@pytest.mark.parametrize("path", MODELS)
@examples(200)
@given(data=st.data())
def test_any_object_is_served_or_refused(server: Server, path: str, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS[path]))
    good = data.draw(st.fixed_dictionaries(right, optional=options))
    body = {"model": model, **good, **data.draw(anything)}
    answer = server.post(path, json.dumps(body).encode())
    assert answer.status_code in (200, 400, 404), (answer.status_code, answer.text)
    if answer.status_code != 200:
        if path in ERRORS:
            assert answer.json().keys() == ERRORS[path]
        else:
            assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
    elif answer.headers["content-type"].startswith("text/event-stream"):
        assert ENDS.get(path, "data: [DONE]\n\n") in answer.text, answer.text
    elif answer.headers["content-type"] == "application/x-ndjson":
        assert json.loads(answer.text.splitlines()[-1])["done"] is True
    else:
        assert answer.json()


@pytest.mark.parametrize("path", MODELS)
@given(body=st.one_of(st.binary(max_size=100), values.map(lambda value: json.dumps(value).encode())))
def test_arbitrary_bytes_are_refused(server: Server, path: str, body: bytes) -> None:
    answer = server.post(path, body)
    assert answer.status_code in (400, 404), (answer.status_code, answer.text)
