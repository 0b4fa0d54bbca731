"""TGI's routes and the plain `/generate`, as httpx, httpx-sse and huggingface_hub see them."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from httpx_sse import connect_sse
from huggingface_hub import AsyncInferenceClient, InferenceClient, close_session
from huggingface_hub.errors import GenerationError, ValidationError

from tests.serving import Running, eventually

HERE = Path(__file__).parent
MODELS = {
    "tokens": "Tokens",
    "words": "Words",
    "bytes": "Bytes",
    "endless": "Endless",
    "formatted": "Formatted",
}


def bytes_tensor(name: str, **more: object) -> dict:
    return {"name": name, "datatype": "BYTES", "shape": [1], **more}


def write(root: Path, name: str, implementation: str, **settings: object) -> None:
    folder = root / name
    folder.mkdir(parents=True)
    shutil.copy(HERE / "tgi_models.py", folder)
    inputs = [bytes_tensor("prompt")]
    if implementation == "Formatted":
        inputs.append(bytes_tensor("response_format", parameters={"optional": True}))
    document = {
        "name": name,
        "implementation": f"tgi_models.{implementation}",
        "inputs": inputs,
        "outputs": [bytes_tensor("text")],
        **settings,
    }
    (folder / "model-settings.json").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def server(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tgi") / "models"
    for name, implementation in MODELS.items():
        write(folder, name, implementation)
    write(folder, "limited", "Endless", max_concurrency=1, max_queue=0)
    settings = {"parallel_workers": workers, "default_model": "tokens"}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def hub(server: Running) -> Iterator[InferenceClient]:
    with InferenceClient(base_url=server.url, timeout=20) as client:
        yield client
    close_session()


def post(server: Running, path: str, body: dict) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=20)


def events(server: Running, path: str, body: dict) -> list[str]:
    """The data of each event of a stream."""
    with (
        httpx.Client(timeout=20) as client,
        connect_sse(client, "POST", server.url + path, json=body) as source,
    ):
        source.response.raise_for_status()
        return [event.data for event in source.iter_sse()]


def test_generate_returns_text_with_optional_details(server: Running) -> None:
    assert post(server, "/generate", {"inputs": "one two"}).json() == {"generated_text": "one two"}
    body = {"inputs": "one two", "parameters": {"details": True, "seed": 3, "return_full_text": True}}
    answered = post(server, "/generate", body)
    assert answered.status_code == 200
    assert answered.json() == {
        "generated_text": "one twoone two",
        "details": {
            "finish_reason": "eos_token",
            "generated_tokens": 3,
            "seed": 3,
            "prefill": [],
            "tokens": [
                {"id": 1, "text": "one", "logprob": -0.5, "special": False},
                {"id": 2, "text": " two", "logprob": -0.5, "special": False},
                {"id": 99, "text": "", "logprob": 0.0, "special": True},
            ],
        },
    }


def test_stream_has_event_per_token_and_text_in_last(server: Running) -> None:
    body = {"inputs": "one two", "parameters": {"details": True, "max_new_tokens": 9}}
    first, second, last = map(json.loads, events(server, "/generate_stream", body))
    token = {"id": 1, "text": "one", "logprob": -0.5, "special": False}
    assert first == {"index": 1, "token": token, "generated_text": None, "details": None}
    assert (second["index"], second["token"]["text"]) == (2, " two")
    assert last == {
        "index": 3,
        "token": {"id": 99, "text": "", "logprob": 0.0, "special": True},
        "generated_text": "one two",
        "details": {"finish_reason": "eos_token", "generated_tokens": 3, "input_length": 7, "seed": None},
    }


def test_stream_bytes_equal_tgi(server: Running) -> None:
    text = post(server, "/generate_stream", {"inputs": "ü", "model": "words"}).text
    assert text == (
        'data:{"index":1,"token":{"id":0,"text":"ü","logprob":0.0,"special":false},'
        '"generated_text":null,"details":null}\n\n'
        'data:{"index":2,"token":{"id":0,"text":"","logprob":0.0,"special":true},'
        '"generated_text":"ü","details":null}\n\n'
    )


def test_stop_string_over_two_tokens_ends_text_and_lists_tokens(server: Running) -> None:
    body = {"inputs": "one two three four", "parameters": {"stop": ["two thr", "x"], "details": True}}
    found = [json.loads(data) for data in events(server, "/generate_stream", body)]
    assert [event["token"]["id"] for event in found] == [1, 2, 3]
    assert "".join(event["token"]["text"] for event in found) == "one "
    assert found[-1]["generated_text"] == "one "
    assert found[-1]["details"]["finish_reason"] == "stop_sequence"
    whole = post(server, "/generate", body).json()
    assert whole["generated_text"] == "one "
    assert [token["id"] for token in whole["details"]["tokens"]] == [1, 2, 3]


def test_max_new_tokens_ends_text(server: Running) -> None:
    body = {"inputs": "a b c d", "parameters": {"max_new_tokens": 2, "details": True}, "model": "words"}
    found = post(server, "/generate", body).json()
    assert (found["generated_text"], found["details"]["finish_reason"]) == ("a b", "length")
    assert json.loads(events(server, "/generate_stream", body)[-1])["generated_text"] == "a b"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (None, ""),
        ({}, "temperature=0.0"),
        ({"do_sample": False}, "temperature=0.0"),
        ({"do_sample": True}, "temperature=1.0"),
        ({"top_k": 4}, "temperature=1.0 top_k=4"),
        ({"temperature": 0.5, "max_new_tokens": 9, "seed": 1}, "max_tokens=9 seed=1 temperature=0.5"),
        ({"watermark": True, "truncate": 5, "details": True}, "temperature=0.0 truncate=5 watermark=True"),
    ],
)
def test_parameters_reach_model_under_openai_names(
    server: Running, parameters: dict | None, expected: str
) -> None:
    body = {"inputs": "parameters", "model": "words", "parameters": parameters}
    assert post(server, "/generate", body).json()["generated_text"] == expected


def test_root_returns_list_or_stream(server: Running) -> None:
    assert post(server, "/", {"inputs": "hi"}).json() == [{"generated_text": "hi"}]
    assert json.loads(events(server, "/", {"inputs": "hi", "stream": True})[-1])["generated_text"] == "hi"
    assert httpx.get(server.url).json() == {"status": "alive"}


def test_best_of_returns_other_sequences(server: Running) -> None:
    body = {"inputs": "a b", "parameters": {"best_of": 2, "do_sample": True, "details": True}}
    found = post(server, "/generate", body).json()
    assert found["generated_text"] == "a b"
    others = found["details"]["best_of_sequences"]
    assert [other["generated_text"] for other in others] == ["a b"]


def test_top_tokens_accompany_each_token(server: Running) -> None:
    body = {"inputs": "a", "parameters": {"top_n_tokens": 2, "details": True}}
    found = post(server, "/generate", body).json()["details"]["top_tokens"]
    assert [[token["text"] for token in place] for place in found] == [["a", "other"], []]
    assert "top_tokens" in json.loads(events(server, "/generate_stream", body)[0])


def test_grammar_is_response_format_of_supporting_models(server: Running) -> None:
    grammar = {"type": "json", "value": {"properties": {"a": {"type": "string"}}}}
    body = {"inputs": "hi", "model": "formatted", "parameters": {"grammar": grammar}}
    told = json.loads(post(server, "/generate", body).json()["generated_text"])
    assert told == {
        "type": "json_schema",
        "json_schema": {"name": "grammar", "schema": grammar["value"]},
    }
    del body["model"]
    refused = post(server, "/generate", body)
    assert (refused.status_code, refused.json()["error_type"]) == (422, "validation")
    assert "parameters.grammar.type" in refused.json()["error"]


@pytest.mark.parametrize("path", ["/generate", "/generate_stream", "/"])
def test_invalid_parameter_is_named_before_stream(server: Running, path: str) -> None:
    refused = post(server, path, {"inputs": "hi", "parameters": {"temperature": -1}, "stream": True})
    assert refused.status_code == 422
    assert refused.json() == {
        "error": "parameters.temperature: must be greater than 0, got -1",
        "error_type": "validation",
        "detail": [
            {
                "type": "value_error",
                "loc": ["body", "parameters", "temperature"],
                "msg": "must be greater than 0, got -1",
            }
        ],
    }


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"inputs": "hi", "model": "nobody"}, 404, "validation"),
        ({"inputs": "fail"}, 424, "generation"),
        ({"inputs": "refuse"}, 422, "validation"),
        ({"prompt": "fail"}, 424, "generation"),
        ({"prompt": "refuse"}, 422, "validation"),
    ],
)
def test_failures_before_the_first_token_have_a_status(
    server: Running, body: dict, status: int, kind: str
) -> None:
    for path in ("/generate", "/generate_stream") if "inputs" in body else ("/generate",):
        failed = post(server, path, body)
        assert (failed.status_code, failed.json()["error_type"]) == (status, kind), path
        assert "canary" not in failed.text


def test_mid_stream_failure_is_last_event(server: Running) -> None:
    *told, last = events(server, "/generate_stream", {"inputs": "one fail"})
    assert len(told) == 1
    found = json.loads(last)
    assert found["error_type"] == "generation"
    assert "canary" not in last
    *told, last = events(server, "/generate", {"prompt": "one fail", "stream": True})
    assert [json.loads(data)["token"] for data in told] == ["one"]
    assert "error" in json.loads(last)


def test_prompt_streams_tokens_with_times_and_done(server: Running) -> None:
    first, second, end, done = events(server, "/generate", {"prompt": "one two", "stream": True})
    assert json.loads(first)["token"] == "one"
    assert sorted(json.loads(first)) == ["prefill_time_ms", "token", "token_id"]
    assert json.loads(first)["token_id"] == 1
    assert sorted(json.loads(second)) == ["step_ms", "token", "token_id"]
    assert json.loads(end)["token_id"] == 99
    assert done == "[DONE]"


def test_prompt_without_stream_is_gathered(server: Running) -> None:
    found = post(server, "/generate", {"prompt": "one two", "max_tokens": 2}).json()
    assert (found["text"], found["token_ids"], found["num_tokens"]) == ("one two", [1, 2], 2)
    assert found["finish_reason"] == "length"
    assert 0 <= found["prefill_time_ms"] <= found["total_time_ms"]
    assert found["step_ms"] >= 0
    assert post(server, "/generate", {"prompt": "a", "model": "words"}).json()["token_ids"] is None
    assert post(server, "/generate", {"prompt": "a", "model": "formatted"}).json()["text"] == "no format"


def test_prompt_has_documented_defaults(server: Running) -> None:
    found = post(server, "/generate", {"prompt": "parameters", "model": "words"}).json()
    assert found["text"] == "max_tokens=128 temperature=0.7"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"prompt": 3}, "prompt"),
        ({"prompt": "hi", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "hi", "max_tokens": "many"}, "max_tokens"),
        ({"prompt": "hi", "temperature": -0.1}, "temperature"),
        ({"prompt": "hi", "stream": "yes"}, "stream"),
        ({"prompt": "hi", "model": 3}, "model"),
    ],
)
def test_invalid_field_error_has_fastapi_format(server: Running, body: dict, field: str) -> None:
    refused = post(server, "/generate", body)
    assert refused.status_code == 422
    assert [fault["loc"] for fault in refused.json()["detail"]] == [["body", field]]


@pytest.mark.parametrize("body", [{}, {"stream": True}, {"prompt": "a", "inputs": "b"}])
def test_ambiguous_body_error_names_both_formats(server: Running, body: dict) -> None:
    refused = post(server, "/generate", body)
    assert refused.status_code == 422
    locations = [fault["loc"] for fault in refused.json()["detail"]]
    assert locations == [["body", "inputs"], ["body", "prompt"]]
    assert "inputs" in refused.json()["error"]
    assert "prompt" in refused.json()["error"]


def test_characters_are_not_split_over_events(server: Running) -> None:
    text = "déjà 🙂 vu"
    found = [
        json.loads(data) for data in events(server, "/generate_stream", {"inputs": text, "model": "bytes"})
    ]
    assert "".join(event["token"]["text"] for event in found) == text
    assert found[-1]["generated_text"] == text
    assert len(found) == len(text.encode()) + 1  # and the end token
    *told, done = events(server, "/generate", {"prompt": text, "model": "bytes", "stream": True})
    assert "".join(json.loads(data)["token"] for data in told) == text
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate_stream", {"inputs": "hi", "model": "endless"}),
        ("/generate", {"prompt": "hi", "model": "endless", "stream": True, "max_tokens": 100000}),
    ],
)
def test_health_works_while_model_blocks_and_disconnect_ends_it(
    server: Running, path: str, body: dict
) -> None:
    server.log.write_text("")
    with (
        httpx.Client(timeout=20) as client,
        connect_sse(client, "POST", server.url + path, json=body) as source,
    ):
        stream = source.iter_sse()
        for _ in range(3):
            next(stream)
            healthy = httpx.get(server.url + "/health", timeout=5)
            assert (healthy.status_code, healthy.json()) == (200, {"status": "healthy"})
        assert not server.noted("finally endless")
    eventually(lambda: server.noted("finally endless"))


def test_stop_string_ends_model(server: Running) -> None:
    server.log.write_text("")
    body = {"inputs": "hi", "model": "endless", "parameters": {"stop": ["3"]}}
    assert post(server, "/generate", body).json() == {"generated_text": "0 1 2 "}
    eventually(lambda: server.noted("finally endless"))


def test_info_shows_default_model_and_limits(server: Running) -> None:
    found = httpx.get(server.url + "/info").json()
    assert found["model_id"] == "tokens"
    assert found["max_stop_sequences"] == 64


def test_a_full_queue_is_429_and_overloaded(server: Running) -> None:
    body = {"inputs": "hi", "model": "limited"}
    with (
        httpx.Client(timeout=20) as client,
        connect_sse(client, "POST", server.url + "/generate_stream", json=body) as source,
    ):
        stream = source.iter_sse()
        next(stream)
        full = post(server, "/generate", body)
    assert (full.status_code, full.json()["error_type"]) == (429, "overloaded")
    assert "retry-after" in full.headers


def test_request_names_model_or_default_and_custom_routes_work(
    tmp_path: Path, start: Callable[..., Running]
) -> None:
    write(tmp_path / "models", "words", "Words")
    write(tmp_path / "models", "own", "Own")
    server = start(tmp_path / "models")
    for answered in (
        post(server, "/generate", {"inputs": "hi"}),
        post(server, "/generate", {"prompt": "hi"}),
        httpx.get(server.url + "/info"),
    ):
        assert answered.status_code == 422
        assert "2 models return texts: own, words" in answered.json()["error"]
        assert "default_model" in answered.json()["error"]
    assert post(server, "/generate", {"inputs": "hi", "model": "own"}).json()["generated_text"] == "hi"
    assert post(server, "/generate_stream", {"inputs": "hi"}).json() == {"own": "stream"}
    assert httpx.get(server.url + "/health").json() == {"own": "health"}


def test_huggingface_hub_generates_text(hub: InferenceClient) -> None:
    assert hub.text_generation("one two three", stop=[" three"]) == "one two"
    found = hub.text_generation("one two", details=True, max_new_tokens=2, seed=5)
    assert (found.generated_text, found.details.finish_reason) == ("one two", "length")
    assert [token.id for token in found.details.tokens] == [1, 2]
    assert found.details.seed == 5
    assert "".join(hub.text_generation("one two ü 🙂", stream=True)) == "one two ü 🙂"
    *_, last = hub.text_generation("one two", stream=True, details=True)
    assert last.details.generated_tokens == 3
    assert last.generated_text == "one two"


def test_huggingface_hub_raises_refusals_and_failures(hub: InferenceClient) -> None:
    with pytest.raises(ValidationError, match=r"parameters\.top_p: must be at most 1"):
        hub.text_generation("hi", top_p=2)
    with pytest.raises(GenerationError):
        hub.text_generation("fail")
    stream = hub.text_generation("one fail", stream=True)
    assert next(stream) == "one"
    with pytest.raises(GenerationError):
        next(stream)


def test_huggingface_hub_chats_with_the_default_model(hub: InferenceClient) -> None:
    message = {"role": "user", "content": "one two"}
    assert hub.chat_completion([message]).choices[0].message.content == "one two"
    chunks = list(hub.chat_completion([message], stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "one two"


def test_huggingface_hub_generates_concurrently(server: Running) -> None:
    async def generate() -> list[str]:
        async with AsyncInferenceClient(server.url, timeout=20) as client:
            return await asyncio.gather(*(client.text_generation(f"text {number}") for number in range(8)))

    assert asyncio.run(generate()) == [f"text {number}" for number in range(8)]
