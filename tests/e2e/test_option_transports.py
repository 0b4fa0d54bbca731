"""Options and token numbers of language models over every transport, each applied or refused by its name."""

import json
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException
from websockets.sync.client import connect

for package in ("torch", "transformers", "llguidance"):
    pytest.importorskip(package)
pytestmark = pytest.mark.filterwarnings("ignore")

from tests.plugins.llm.transformers import tiny
from tests.serving import Running

SAID = [{"role": "user", "content": "one"}]
MOST = {"max_tokens": 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transports") / "models"
    tiny.write(folder / "tiny")
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Running]:
    running = Running(folder, within=180, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def alone(folder: Path) -> tiny.Alone:
    return tiny.Alone(folder / "tiny")


def scalars(options: dict[str, Any]) -> dict[str, Any]:
    """Options as parameters of V2: lists and objects are JSON."""
    return {
        name: json.dumps(value) if isinstance(value, (list, dict)) else value
        for name, value in options.items()
    }


def v2(prompt: str, options: dict[str, Any]) -> dict[str, Any]:
    tensor = {"name": "prompt", "datatype": "BYTES", "shape": [1], "data": [prompt]}
    return {"id": "1", "inputs": [tensor], "parameters": scalars(options)}


def posted(served: Running, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(served.url + path, json=body, timeout=60)


def refused(answer: httpx.Response) -> str:
    assert answer.status_code in (400, 422), answer.text
    return answer.text


def rest(served: Running, prompt: str, options: dict[str, Any]) -> str:
    answer = posted(served, "/v2/models/tiny/infer", v2(prompt, options))
    return answer.json()["outputs"][0]["data"][0] if answer.is_success else refused(answer)


def generate(served: Running, prompt: str, options: dict[str, Any]) -> str:
    answer = posted(served, "/v2/models/tiny/generate", {"prompt": prompt, **scalars(options)})
    return answer.json()["text"] if answer.is_success else refused(answer)


def generate_stream(served: Running, prompt: str, options: dict[str, Any]) -> str:
    body = {"prompt": prompt, "parameters": scalars(options)}
    answer = posted(served, "/v2/models/tiny/generate_stream", body)
    if not answer.is_success:
        return refused(answer)
    lines = [line for line in answer.text.splitlines() if line.startswith("data:")]
    return "".join(json.loads(line[5:]).get("text", "") for line in lines)


def grpc_inputs(prompt: str) -> list[triton.InferInput]:
    given = triton.InferInput("prompt", [1], "BYTES")
    given.set_data_from_numpy(np.array([prompt], object))
    return [given]


def grpc(served: Running, prompt: str, options: dict[str, Any]) -> str:
    with triton.InferenceServerClient(served.grpc) as client:
        try:
            answer = client.infer("tiny", grpc_inputs(prompt), parameters=scalars(options))
        except InferenceServerException as error:
            return f"{error.status()}: {error.message()}"
    return answer.as_numpy("text")[0].decode()


def grpc_stream(served: Running, prompt: str, options: dict[str, Any]) -> str:
    answers: queue.Queue[Any] = queue.Queue()
    pieces = []
    with triton.InferenceServerClient(served.grpc) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        more = {"enable_empty_final_response": True}
        client.async_stream_infer("tiny", grpc_inputs(prompt), parameters=scalars(options), **more)
        while not isinstance(answer := answers.get(timeout=60), InferenceServerException):
            response = answer.get_response()
            if response.parameters["triton_final_response"].bool_param:
                return b"".join(pieces).decode()
            pieces.append(answer.as_numpy("text")[0])
        return str(answer.message())


def websocket(served: Running, prompt: str, options: dict[str, Any], flat: bool = False) -> str:
    body = {"prompt": prompt, **scalars(options)} if flat else v2(prompt, options)
    text = ""
    with connect(served.url.replace("http", "ws", 1) + "/v2/models/tiny/stream") as socket:
        socket.send(json.dumps(body))
        for message in socket:
            answer = json.loads(message)
            if "error" in answer:
                assert answer["code"] in ("invalid", "invalid_request", "invalid_argument"), answer
                return str(answer["error"])
            outputs = answer.get("outputs")
            text += (outputs[0]["data"][0] if outputs else "") + answer.get("text", "")
            if answer.get("triton_final_response") or answer.get("parameters", {}).get(
                "triton_final_response"
            ):
                break
    return text


def flat_websocket(served: Running, prompt: str, options: dict[str, Any]) -> str:
    return websocket(served, prompt, options, flat=True)


def texts_api(path: str, find: Callable[[Any], str], **fixed: Any) -> Callable[..., str]:
    """An API of texts. It takes its options at the top, or in the field that is a dict."""
    within = next((name for name, value in fixed.items() if isinstance(value, dict)), None)

    def ask(served: Running, prompt: str, options: dict[str, Any]) -> str:
        named = {LIMITS.get(path, name) if name == "max_tokens" else name: options[name] for name in options}
        body = {"model": "tiny", **fixed, **({within: named} if within else named)}
        answer = posted(served, path, body)
        return find(answer.json()) if answer.is_success else refused(answer)

    return ask


LIMITS = {"/v1/responses": "max_output_tokens", "/api/chat": "num_predict", "/generate": "max_new_tokens"}

RAW = {
    each.__name__: each
    for each in (rest, generate, generate_stream, grpc, grpc_stream, websocket, flat_websocket)
}
TRANSPORTS = RAW | {
    "chat": texts_api(
        "/v1/chat/completions", lambda it: it["choices"][0]["message"]["content"], messages=SAID
    ),
    "completions": texts_api("/v1/completions", lambda it: it["choices"][0]["text"], prompt="one"),
    "responses": texts_api(
        "/v1/responses",
        lambda it: "".join(p["text"] for i in it["output"] for p in i["content"]),
        input="one",
    ),
    "anthropic": texts_api(
        "/v1/messages", lambda it: "".join(each["text"] for each in it["content"]), messages=SAID
    ),
    "ollama": texts_api(
        "/api/chat", lambda it: it["message"]["content"], messages=SAID, stream=False, options={}
    ),
    "tgi": texts_api("/generate", lambda it: it["generated_text"], inputs="one", parameters={}),
}

A, B = 40, 41
"""Numbers of two tokens with a text each."""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_token_options_are_applied(served: Running, alone: tiny.Alone, transport: str) -> None:
    a, b = (alone.tokenizer.decode([each]) for each in (A, B))
    two = {"allowed_token_ids": [A, B], "logit_bias": {str(A): 100}, **MOST}
    ending = {"allowed_token_ids": [0, A], "logit_bias": {"0": 100}, **MOST}
    expected = [
        (two, a * 6),
        ({**two, "bad_words": [a]}, b * 6),
        ({**two, "bad_words": [a + a]}, a + b + a + b + a + b),
        ({**two, "stop_token_ids": [A]}, ""),
        ({**two, "stop_token_ids": [A], "ignore_eos": True, "min_tokens": 2}, b * 2),
        ({**two, "stop_token_ids": [B]}, a * 6),
        ({**ending, "min_tokens": 3}, a * 3),
        (ending, ""),
        ({**ending, "ignore_eos": True, "skip_special_tokens": False}, "</s>" * 6),
        ({**ending, "min_tokens": 6}, a * 6),
        ({"allowed_token_ids": [A], "bad_words": [a], "top_k": 5, **MOST}, a * 6),  # no token is left
    ]
    for options, text in expected:
        assert TRANSPORTS[transport](served, "one", options) == text, options


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_wrong_options_are_named(served: Running, transport: str) -> None:
    for name, value in (
        *(("stop_token_ids", [300]), ("stop_token_ids", ["a"]), ("allowed_token_ids", [True])),
        *(("bad_words", [1]), ("bad_words", ["a"] * 257), ("min_tokens", 7), ("min_tokens", "a")),
        *(("truncate_prompt_tokens", 0), ("skip_special_tokens", "no"), ("use_beam_search", True)),
        *(("what", 1), ("repeat_last_n", 3), ("logit_bias", {"a": 1})),
    ):
        assert name in TRANSPORTS[transport](served, "one", {**MOST, name: value}), name


def test_format_ends_text_before_min_tokens(served: Running) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "integer"}}}
    body = {"model": "tiny", "messages": SAID, "response_format": form, "min_tokens": 3, **MOST}
    assert "min_tokens is not taken with response_format" in refused(
        posted(served, "/v1/chat/completions", body)
    )


def test_stop_strings_have_no_effect_before_min_tokens(served: Running, alone: tiny.Alone) -> None:
    a = alone.tokenizer.decode([A])
    body = {"model": "tiny", "prompt": "one", "logit_bias": {str(A): 100}, "stop": [a], **MOST}
    for least, text in ((0, ""), (2, a * 2), (6, a * 6)):
        answer = posted(served, "/v1/completions", {**body, "min_tokens": least}).json()
        assert answer["choices"][0]["text"] == text


@pytest.mark.parametrize("transport", RAW)
def test_token_id_prompt(served: Running, alone: tiny.Alone, transport: str) -> None:
    numbers = alone.tokenizer("one two")["input_ids"]
    ask = RAW[transport]
    given = {"token_ids": True, **MOST}
    plain = ask(served, "one two", MOST)
    assert plain
    assert ask(served, json.dumps(numbers), given) == plain
    assert ask(served, json.dumps([7, *numbers]), {**given, "truncate_prompt_tokens": len(numbers)}) == plain
    for wrong in ("[300]", "[]", "one", "[1.5]"):
        assert "prompt" in ask(served, wrong, given)
