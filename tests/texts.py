"""Serves models of text, and gives each text a prompt of its own."""

import json
import shutil
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.serving import HERE, Running, eventually

if TYPE_CHECKING:
    from openai import OpenAI

_prompts = count()


def _text(name: str, **more: object) -> dict:
    return {"name": name, "datatype": "BYTES", "shape": [1], **more}


def _optional(name: str, datatype: str = "BYTES", shape: tuple[int, ...] = (1,)) -> dict:
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": {"optional": True}}


PROMPT = {"inputs": [_text("prompt")], "outputs": [_text("text")]}

IN_PROGRESS = "inferstream_calls_in_progress{"

SAMPLING = [
    _optional("max_tokens", "INT32"),
    _optional("temperature", "FP32"),
    _optional("top_k", "INT64"),
    _optional("seed", "INT64"),
]

MODELS: dict[str, dict] = {
    "words": {"implementation": "Words", **PROMPT},
    "blocking-words": {"implementation": "BlockingWords", **PROMPT},
    "characters": {"implementation": "Characters", **PROMPT},
    "tokens": {"implementation": "Tokens", **PROMPT},
    "saying": {"implementation": "Saying", **PROMPT},
    "whole": {"implementation": "Whole", **PROMPT},
    "steps": {"implementation": "Steps", **PROMPT},
    "hidden": {"implementation": "Words", **PROMPT, "openai": False},
    "messages": {
        "implementation": "Saying",
        "inputs": [_text("messages"), _optional("images", shape=(-1,)), _optional("audio", shape=(-1,))],
        "outputs": [_text("text")],
    },
    "calling": {
        "implementation": "Saying",
        "inputs": [_text("messages"), _optional("tools")],
        "outputs": [_text("text")],
    },
    "sampling": {
        "implementation": "Saying",
        "inputs": [_text("prompt"), *SAMPLING],
        "outputs": [_text("text")],
        "input_validation": "strict",
    },
    "templated": {
        "implementation": "Saying",
        **PROMPT,
        "chat_template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>",
    },
    "tokenizer": {"implementation": "Saying", **PROMPT},
    "impatient": {"implementation": "Words", **PROMPT, "request_timeout": 0.3},
    "one-at-a-time": {"implementation": "Words", **PROMPT, "max_concurrency": 1, "max_queue": 0},
    "numbers": {
        "implementation": "Whole",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
    },
    "vectors": {
        "implementation": "Vectors",
        "inputs": [{"name": "texts", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": "vectors", "datatype": "FP32", "shape": [-1, 4]}],
    },
}

SOUNDS = {name: {"implementation": name} for name in ("hearing", "speaking")}
"""Functions between texts and sounds, which are not among the models of text."""

TOKENIZER = {
    "bos_token": {"content": "<s>"},
    "eos_token": "</s>",
    "chat_template": "{{ bos_token }}{% for m in messages %}"
    "{% if m.tool_call_id %}{{ 'id ' + m.tool_call_id }}{% endif %}"
    "{% if m.name == 'nobody' %}{{ raise_exception('nobody says nothing') }}{% endif %}"
    "[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}",
}


def write_text_model(root: Path, name: str) -> None:
    _write(root / name, name, {**MODELS, **SOUNDS}[name])


def write_text_models(root: Path, **settings: object) -> Path:
    for name in MODELS:
        write_text_model(root, name)
    for version in ("1", "2"):
        _write(
            root / "versions" / version, "versions", {**MODELS["whole"], "parameters": {"version": version}}
        )
    (root / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    (root / "settings.json").write_text(json.dumps({"default_model": "words", **settings}))
    return root


def _write(folder: Path, name: str, model: dict) -> None:
    folder.mkdir(parents=True)
    shutil.copy(HERE / "text_models.py", folder)
    settings = {"name": name, **model, "implementation": f"text_models.{model['implementation']}"}
    (folder / "model-settings.json").write_text(json.dumps(settings))


def client(server: Running, prefix: str = "/v1") -> "OpenAI":
    """OpenAI's client, which asks once."""
    return _client(server.url + prefix)


@cache  # each loads the certificates of the system, which takes longer than a test
def _client(url: str) -> "OpenAI":
    from openai import OpenAI  # late: half a second of every run of tests, most of which need none

    return OpenAI(base_url=url, api_key="none", max_retries=0, timeout=20)


def prompt(words: str = "one two three") -> str:
    """A prompt that no other text has."""
    return f"prompt-{next(_prompts)} {words}"


def said(prompt: str) -> list[dict]:
    """The messages of a chat of which the plain template makes this prompt."""
    return [{"role": "user", "content": prompt}]


def ended(server: Running, *prompts: str) -> None:
    """Wait until the model has ended these texts."""
    for each in prompts:
        eventually(lambda each=each: server.noted(f"finally {each}"), 10)


def idle(server: Running) -> bool:
    """Whether no call of any model is in progress or waits."""
    page = httpx.get(f"{server.url}/metrics").text
    meters = [line for line in page.splitlines() if line.startswith(IN_PROGRESS)]
    assert meters
    return all(float(line.rsplit(" ", 1)[1]) == 0 for line in meters)
