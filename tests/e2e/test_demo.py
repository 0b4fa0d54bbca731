"""`server demo` answers the calls that it prints."""

import json
import re
import shlex

import httpx
import openai
import pytest

from tests.serving import Running


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("demo") / "demo", demo=True)
    yield running
    assert running.stop() == 0, running.text()


def calls(demo):
    """The curl lines that the demo prints, as addresses and bodies."""
    text = re.sub(r",\n +", ", ", demo.text())
    words = [shlex.split(line) for line in text.splitlines() if line.strip().startswith("curl")]
    return {urlsplit(line[2]): line[4] for line in words}


def urlsplit(url):
    return "/" + url.split("/", 3)[3]


@pytest.mark.parametrize(
    "path", ["/v2/models/storyteller/generate_stream", "/v1/chat/completions", "/generate"]
)
def test_each_printed_line_streams_a_story(demo, path):
    body = {**json.loads(calls(demo)[path]), "max_tokens": 5}
    with httpx.stream("POST", demo.url + path, json=body, timeout=20) as response:
        assert response.status_code == 200
        events = [line for line in response.iter_lines() if line.startswith("data:")]
    assert len(events) >= 5


def test_the_printed_program_prints_a_story(demo):
    assert f'base_url="{demo.url}/v1"' in demo.text()
    messages = [{"role": "user", "content": "the old man"}]
    with openai.OpenAI(base_url=f"{demo.url}/v1", api_key="none") as client:
        answer = client.chat.completions.create(
            model="storyteller", messages=messages, max_tokens=4, seed=1, logprobs=True
        )
    assert len(answer.choices[0].message.content.split()) == 4
    assert len(answer.choices[0].logprobs.content) == 4
    assert answer.usage.completion_tokens == 4
    assert answer.usage.prompt_tokens == 3
