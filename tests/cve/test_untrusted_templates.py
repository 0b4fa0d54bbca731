"""Chat templates of repositories without trust: what they take, and the files that settings name as templates."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.lying import layer, registry
from tests.serving import HERE, Running, write_model
from tests.text_models import Saying
from tests.texts import PROMPT

CVES = ("CVE-2024-34359", "CVE-2026-5760")

MB = 2**20

HONEST = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"

BOMBS = {
    "time": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x",
    "power": "{{ (messages | length + 9) ** 99999999 }}",
    "memory": "{% set ns = namespace(x='a'*50000000) %}{% for i in range(9) %}"
    "{% set ns.x = ns.x ~ 'a'*50000000 %}{% endfor %}x",
    "constant": "{{ 'a' * 10**10 }}",
    "output": "{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}",
    "pieces": "{% for i in range(99999) %}{% for j in range(99999) %}a{% endfor %}{% endfor %}",
    "source": "{{ messages }}" * 60_000,
}

MESSAGES = [{"role": "user", "content": "hi"}]

APIS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 9},
    "/v1/messages/count_tokens": {"messages": MESSAGES},
    "/api/chat": {"messages": MESSAGES, "stream": False},
    "/api/generate": {"prompt": "hi", "stream": False},
}


@pytest.fixture(scope="module", params=[1, 2], ids=["one front end", "two front ends"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Models of the operator's, whose tokenizers come from a registry, in the server and in workers."""
    folder = tmp_path_factory.mktemp("untrusted") / "models"
    code = (HERE / "text_models.py").read_text()
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "local", f"text_models.{Saying.__name__}", code, **PROMPT, chat_template=HONEST)
    with ExitStack() as stack:
        for name, template in {"honest": HONEST, "broken": "{% if %}", **BOMBS}.items():
            config = json.dumps({"chat_template": template, "bos_token": "<s>"}).encode()
            liar = stack.enter_context(registry([(config, layer(config, "tokenizer_config.json"))]))
            for more in ("", "-workers")[: 2 if name in ("honest", "time") else 1]:
                write_model(
                    folder,
                    name + more,
                    f"text_models.{Saying.__name__}",
                    code,
                    **PROMPT,
                    name=name + more,
                    parameters={"uri": f"oci://{liar.host}/m"},
                    parallel_workers=1 if more else 0,
                )
        cache = str(folder.parent / "cache")
        frontends = str(request.param)
        running = Running(
            folder, "--frontends", frontends, within=90, INFERSTREAM_SOURCES_DIR=cache, MY_TOKEN="s3cr3t"
        )
        yield running
        assert running.stop() == 0, running.text()


def ask(server: Running, path: str, model: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json={"model": model, **APIS[path], **more}, timeout=30)


@pytest.mark.parametrize("model", [*BOMBS, "time-workers"])
def test_slow_template_fails_only_its_request(server: Running, model: str) -> None:
    for path in APIS:
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(ask, server, path, model)
            server.probe()  # another model answers
            found = asked.result()
        assert found.status_code == 500, (path, found.text)
        assert "The chat template of model" in found.text
        assert "trust_remote_code lifts the limit" in found.text
    assert server.rss() < 1000 * MB
    server.probe()


@pytest.mark.parametrize("path", APIS)
def test_harmless_template_renders_same_prompt(server: Running, path: str) -> None:
    for model in ("honest", "honest-workers"):
        for _ in range(2):
            found = ask(server, path, model)
            if path.endswith("count_tokens"):
                assert found.status_code == 400, found.text  # the model does not say how many it reads
            else:
                assert found.status_code == 200, found.text
                assert "<s>[user]hi" in found.text
    streamed = ask(server, path, "honest", stream=True)
    assert path.endswith("count_tokens") or "<s>[user]hi" in streamed.text
    if path == "/v1/chat/completions":
        several = ask(server, path, "honest", n=3).json()["choices"]
        assert ["<s>[user]hi" in each["message"]["content"] for each in several] == [True] * 3


def test_unparsable_template_falls_back_to_plain_one(server: Running) -> None:
    found = ask(server, "/v1/chat/completions", "broken")
    assert json.loads(found.json()["choices"][0]["message"]["content"])["inputs"] == {"prompt": ["hi"]}


def test_many_requests_for_slow_template_are_refused(server: Running) -> None:
    with ThreadPoolExecutor(48) as threads:
        asked = [threads.submit(ask, server, "/v1/chat/completions", "time") for _ in range(48)]
        server.probe()
        statuses = [each.result().status_code for each in asked]
    assert {*statuses} == {429, 500}
    server.probe()


@pytest.mark.parametrize("model", ["local", "honest"])
def test_many_messages_render_off_the_event_loop(server: Running, model: str) -> None:
    messages = [{"role": "user", "content": str(number)} for number in range(1000)]
    found = ask(server, "/v1/chat/completions", model, messages=messages)
    prompt = json.loads(found.json()["choices"][0]["message"]["content"])["inputs"]["prompt"][0]
    assert prompt.removeprefix("<s>") == "".join(f"[user]{number}" for number in range(1000))


def test_messages_refused_by_template_are_bad_requests(server: Running) -> None:
    """The error of each API names its own field."""
    long = [{"role": "user", "content": "x" * 2 * MB}]
    found = ask(server, "/v1/chat/completions", "honest", messages=long)
    assert found.status_code == 500
    assert "1,000,000 bytes" in found.text


def test_template_processes_have_no_secrets(server: Running) -> None:
    ask(server, "/v1/chat/completions", "honest")
    helpers = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"text/jinja.py" in (folder / "cmdline").read_bytes():
                helpers.append((folder / "environ").read_bytes())
                assert "0" in (folder / "limits").read_text()
        except OSError:  # ended meanwhile
            continue
    assert helpers
    assert not any(b"s3cr3t" in each for each in helpers)


STORY = {
    "implementation": "inferstream.cli.demo_models.storyteller.model.Storyteller",
    "inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1]}],
    "outputs": [{"name": "text", "datatype": "BYTES", "shape": [1]}],
}


@pytest.mark.parametrize("where", ["absolute", "upwards", "extra"])
def test_template_path_stays_in_repository(tmp_path: Path, where: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("word " * 321 + "TOPSECRET")
    path = str(secret) if where != "upwards" else "../" * 20 + str(secret).lstrip("/")
    more = {"parameters": {"extra": {"chat_template": path}}} if where == "extra" else {"chat_template": path}
    settings = json.dumps({"name": "m", **STORY, **more}).encode()
    with registry([(settings, layer(settings, "model-settings.json"))]) as liar:
        (tmp_path / "served").mkdir()
        cache = str(tmp_path / "cache")
        running = Running(
            tmp_path / "served", target=f"oci://{liar.host}/m", within=60, INFERSTREAM_SOURCES_DIR=cache
        )
        found = ask(running, "/v1/chat/completions", "m")
        assert running.stop() == 0
    assert '"prompt_tokens":322' not in found.text
    assert "TOPSECRET" not in found.text
    if where != "extra":
        assert found.status_code >= 400
