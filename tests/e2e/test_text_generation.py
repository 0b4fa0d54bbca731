"""Text generation of the protocol: `text_input` at `generate` and `generate_stream` of each text model."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import connect_sse

from tests.frontends import clients, two
from tests.serving import Running
from tests.texts import ended, prompt, write_text_models


def post(
    server: Running, model: str, text: object, *, at: str = "generate", **parameters: Any
) -> httpx.Response:
    body = {"text_input": text, **({"parameters": parameters} if parameters else {})}
    return httpx.post(f"{server.url}/v2/models/{model}/{at}", json=body, timeout=20)


def events(server: Running, model: str, text: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = post(server, model, text, at="generate_stream", **parameters)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (
        200,
        "text/event-stream",
    )
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line]


@pytest.mark.parametrize("model", ["words", "blocking-words", "characters", "tokens", "steps"])
def test_every_text_model_generates(texts: Running, model: str) -> None:
    text = prompt("a b")
    names = {"model_name": model, "model_version": ""}
    if model != "characters":
        assert post(texts, model, text).json() == {"text_output": text, **names}
    found = events(texts, model, text, max_tokens=100)
    assert "".join(event.pop("text_output") for event in found) == text
    assert found == [names] * len(found)
    assert len(found) > 1


def test_whole_text_and_version_in_the_path(texts: Running) -> None:
    for at, version in (("versions", "2"), ("versions/versions/1", "1")):
        found = post(texts, at, "word").json()
        assert found == {"text_output": "all of word", "model_name": "versions", "model_version": version}
    assert [event["text_output"] for event in events(texts, "whole", "word")] == ["all of word"]


def test_model_of_messages_receives_text_as_message_of_user(texts: Running) -> None:
    said = json.loads(post(texts, "messages", "hi", seed=3).json()["text_output"])
    assert json.loads(said["inputs"]["messages"][0]) == [{"role": "user", "content": "hi"}]
    assert said["parameters"] == {"max_tokens": 20, "temperature": 1.0, "seed": 3}


def test_parameters_reach_the_inputs_that_a_model_declares(texts: Running) -> None:
    said = json.loads(
        post(texts, "sampling", "hi", temperature=0, max_tokens=7, top_p=0.5).json()["text_output"]
    )
    assert said == {
        "inputs": {"prompt": ["hi"], "max_tokens": [7], "temperature": [0.0]},
        "parameters": {"top_p": 0.5},
    }


def test_parameters_may_be_next_to_the_text(texts: Running) -> None:
    body = {"text_input": "a b c", "max_tokens": 2, "id": "mine", "parameters": {"max_tokens": 1}}
    url = f"{texts.url}/v2/models/words/generate"
    assert httpx.post(url, json=body).json()["text_output"] == "a"
    del body["parameters"]
    assert httpx.post(url, json=body).json()["text_output"] == "a b"


def token(id: int, text: str, logprob: float = -0.5) -> dict[str, Any]:
    return {"id": id, "text": text, "logprob": logprob, "special": False}


def test_details_have_reason_and_tokens(texts: Running) -> None:
    whole = post(texts, "tokens", "a b c", details=True).json()["details"]
    tokens = [token(0, "a"), token(1, " b"), token(2, " c")]
    assert whole == {"finish_reason": "eos_token", "logprobs": tokens}
    limited = post(texts, "tokens", "a b c", details=True, max_tokens=2).json()
    assert limited["text_output"] == "a b"
    assert limited["details"] == {"finish_reason": "length", "logprobs": tokens[:2]}
    stopped = post(texts, "tokens", "a b c", details=True, stop=["x", " b"]).json()
    assert (stopped["text_output"], stopped["details"]["finish_reason"]) == ("a", "stop_sequence")
    first, second, last = events(texts, "tokens", "a b c", details=True)
    assert "details" not in first | second
    assert last["details"] == {"finish_reason": "eos_token", "logprobs": tokens, "token": tokens[2]}


@pytest.mark.parametrize("at", ["generate", "generate_stream"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text_input": 5}, "text_input"),
        ({"text_input": None}, "text_input"),
        ({"parameters": []}, "parameters"),
        ({"parameters": {"temperature": -1}}, "parameters.temperature"),
        ({"parameters": {"top_p": 1.1}}, "parameters.top_p"),
        ({"parameters": {"max_tokens": 0}}, "parameters.max_tokens"),
        ({"parameters": {"stop": 5}}, "parameters.stop"),
        ({"parameters": {"details": 1}}, "parameters.details"),
    ],
)
def test_invalid_request_is_422(texts: Running, at: str, body: dict, field: str) -> None:
    answer = httpx.post(f"{texts.url}/v2/models/words/{at}", json={"text_input": "a", **body})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/json")
    assert answer.json()["error"].startswith(f"{field}: ")


def test_failures_of_the_model_are_424_or_an_event(texts: Running) -> None:
    for at in ("generate", "generate_stream"):
        failed = post(texts, "words", "a b", at=at, fail_at=0)
        assert (failed.status_code, list(failed.json())) == (424, ["error"])
    assert post(texts, "words", "a b", fail_at=1).status_code == 424
    assert post(texts, "words", prompt(), too_long=True).status_code == 422
    first, last = events(texts, "words", "a b", fail_at=1)
    assert (first["text_output"], list(last)) == ("a", ["error"])


def test_requests_of_other_formats_are_unchanged(texts: Running) -> None:
    url = f"{texts.url}/v2/models/whole/generate"
    flat = {"model_name": "whole", "model_version": "", "text": "all of x"}
    assert httpx.post(url, json={"prompt": "x"}).json() == flat
    assert httpx.post(url, json={"prompt": "x", "text_input": "y"}).json() == flat
    asked = httpx.post(url, json={"text_input": "x"}, headers={"x-stream-dialect": "triton"})
    assert (asked.status_code, asked.json()["error"]) == (400, 'input "prompt" is missing; it takes prompt')
    for other, status in (("vectors", 400), ("numbers", 400), ("hidden", 400), ("nobody", 404)):
        assert post(texts, other, "x").status_code == status


def test_overload_is_429_with_retry_after(serve: Callable[..., Running], tmp_path: Path) -> None:
    server = serve(write_text_models(tmp_path / "models"))
    url = f"{server.url}/v2/models/one-at-a-time/generate_stream"
    text = prompt()
    body = {"text_input": text, "parameters": {"endless": True, "max_tokens": 1_000_000}}
    with httpx.stream("POST", url, json=body, timeout=20) as stream:
        lines = stream.iter_lines()  # kept, because its end closes the stream
        next(lines)
        refused = post(server, "one-at-a-time", "x")
    assert (refused.status_code, refused.headers.get("retry-after")) == (429, "1"), refused.text
    ended(server, text)


@pytest.mark.parametrize("model", ["words", "blocking-words"])
def test_disconnect_cancels(texts: Running, model: str) -> None:
    text = prompt()
    body = {"text_input": text, "parameters": {"endless": True, "max_tokens": 1_000_000}}
    url = f"{texts.url}/v2/models/{model}/generate_stream"
    with httpx.stream("POST", url, json=body, timeout=20) as stream:
        assert json.loads(next(stream.iter_lines())[6:])["model_name"] == model
    ended(texts, text)


def test_front_ends_and_http2(serve: Callable[..., Running], tmp_path: Path) -> None:
    server = serve(two(write_text_models(tmp_path / "models")), "--one-port")
    with clients(server) as opened:
        for client in opened:
            body = {"text_input": "a b", "parameters": {"max_tokens": 1}}
            assert client.post("/v2/models/words/generate", json=body).json()["text_output"] == "a"
    with httpx.Client(base_url=server.url, http1=False, http2=True, timeout=20) as client:
        whole = client.post("/v2/models/words/generate", json={"text_input": "a b"})
        assert (whole.http_version, whole.json()["text_output"]) == ("HTTP/2", "a b")
        body = {"text_input": "a b"}
        with connect_sse(client, "POST", "/v2/models/words/generate_stream", json=body) as source:
            assert [event.json()["text_output"] for event in source.iter_sse()] == ["a", " b"]
        assert client.post("/v2/models/words/generate", json={"text_input": 5}).status_code == 422


def secret(id: str) -> str:
    return f"ifs_{id}_{'s' * 43}"


def key(id: str, scopes: list[str], **limits: float) -> dict[str, Any]:
    digest = hashlib.sha256(secret(id).encode()).hexdigest()
    more = {"models": ["*"], "expires": None, "limits": limits}
    return {"id": id, "principal": id, "sha256": digest, "scopes": scopes, **more}


def test_keys_apply(serve: Callable[..., Running], tmp_path: Path) -> None:
    keys = [
        key("whole", ["infer"]),
        key("both", ["infer", "stream"]),
        key("slow", ["infer"], requests_per_second=0.001, burst=1),
    ]
    folder = write_text_models(tmp_path / "models")
    server = serve(folder, INFERSTREAM_KEYS=json.dumps({"version": 1, "keys": keys}))
    url = f"{server.url}/v2/models/words"

    def ask(id: str, at: str = "generate") -> httpx.Response:
        headers = {"authorization": f"Bearer {secret(id)}"} if id else {}
        return httpx.post(f"{url}/{at}", json={"text_input": "a b"}, headers=headers, timeout=20)

    assert [ask("").status_code, ask("other").status_code] == [401, 401]
    assert [ask("whole").status_code, ask("whole", "generate_stream").status_code] == [200, 403]
    assert [ask("both").status_code, ask("both", "generate_stream").status_code] == [200, 200]
    assert ask("slow").status_code == 200
    limited = ask("slow")
    assert (limited.status_code, int(limited.headers["retry-after"]) > 0) == (429, True)


APP = """
from collections.abc import Iterator
from inferstream import App, Token

app = App()

@app.model
def story(text_input: str) -> Iterator[str]:
    yield from ("a", " b", " c")

@app.model
def only(text_input: str) -> str:
    return f"all of {text_input}"

@app.model
def free(prompt: str, stop: str = "") -> Iterator[Token]:
    for id, text in enumerate(("a", " b", " c")):
        yield Token(text, id=id)
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("generation") / "app"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    running = Running(folder, target=str(folder / "app.py"))
    yield running
    assert running.stop() == 0, running.text()


def test_functions_generate(app: Running) -> None:
    assert post(app, "free", "x", max_tokens=2).json()["text_output"] == "a b"
    assert [event["text_output"] for event in events(app, "free", "x", stop=["c"])] == ["a", " b", " "]


def test_model_with_the_input_keeps_flat_json(app: Running) -> None:
    name = {"model_name": "only", "model_version": ""}
    assert post(app, "only", "x").json() == {"output": "all of x", **name}
    assert post(app, "only", 5).status_code == 400
    assert [list(event) for event in events(app, "story", "x")] == [
        ["output", "model_name", "model_version"]
    ] * 3


def test_model_with_the_input_answers_what_flat_json_cannot(app: Running) -> None:
    assert post(app, "story", "x").json()["text_output"] == "a b c"  # flat JSON has one response
    assert post(app, "only", "x", details=True).json()["details"]["finish_reason"] == "eos_token"
    assert [event["text_output"] for event in events(app, "story", "x", stop=[" b"])] == ["a"]
    assert post(app, "story", "x", details=True, max_tokens=0).status_code == 422
