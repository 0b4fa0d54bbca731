"""Numbers of a request that multiply work or memory, or that a parser does not expect."""

import json
from typing import Any

import httpx
import pytest

from tests.cve.audited import Audited

CVES = ("CVE-2026-54283", "CVE-2026-34756", "CVE-2026-24146", "CVE-2026-24173", "CVE-2025-33201")

NUMBERS = [2**31, -1, 0, 2**63, 2**64, 10**30, 1.5e308, "1" * 5000]

OPENAI = (
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "logprobs",
    "top_logprobs",
)
MORE = (
    "seed",
    "top_k",
    "min_tokens",
    "truncate_prompt_tokens",
    "prompt_logprobs",
    "priority",
    "dimensions",
    "k",
)
TGI = ("best_of", "max_new_tokens", "seed", "top_k", "top_n_tokens", "truncate", "repetition_penalty")
V2 = ("priority", "timeout", "binary_data_output", "binary_data_size", "sequence_id", "max_tokens")
HEADERS = (
    "Inference-Header-Content-Length",
    "X-Items-Per-Second",
    "Last-Event-ID",
    "Grpc-Timeout",
    "X-Request-Timeout",
)

DIMENSIONS = ("[{0}]", "[{0},{0}]", "[0,{0},{0}]", "[1,{0}]")


class Raw(str):
    """A number as it stands in JSON."""


def dumped(value: Any) -> str:
    """JSON with numbers that Python would not write so."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{dumped(each)}" for key, each in value.items()) + "}"
    return "[" + ",".join(map(dumped, value)) + "]" if isinstance(value, list) else json.dumps(value)


def requests(number: Raw) -> list[tuple[str, dict, dict[str, str]]]:
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}
    infer = "/v2/models/echo/infer"
    found: list[tuple[str, dict, dict[str, str]]] = []
    for field in (*OPENAI, *MORE):
        found.append(
            (
                "/v1/chat/completions",
                {"model": "words", "messages": [{"role": "user", "content": "a"}], field: number},
                {},
            )
        )
        found.append(("/v1/completions", {"model": "words", "prompt": "a", field: number}, {}))
        found.append(("/v1/responses", {"model": "words", "input": "a", field: number}, {}))
        found.append(("/v1/embeddings", {"model": "vectors", "input": "a", field: number}, {}))
        found.append(("/v2/models/words/generate", {"prompt": "a", field: number}, {}))
        said = {"model": "words", "messages": [{"role": "user", "content": "a"}]}
        found.append(("/v1/messages", {**said, "max_tokens": 9, field: number}, {}))
        found.append(("/api/chat", {**said, "options": {field: number}}, {}))
        found.append(("/rerank", {"model": "words", "query": "a", "documents": ["a"], field: number}, {}))
    found.append(("/v1/completions", {"model": "words", "prompt": [number]}, {}))
    found += [("/generate", {"inputs": "a", "parameters": {field: number}}, {}) for field in TGI]
    found += [(infer, {"inputs": [tensor], "parameters": {field: number}}, {}) for field in V2]
    found += [(infer, {"inputs": [{**tensor, "parameters": {field: number}}]}, {}) for field in V2]
    found += [("/v2/models/both/infer_stream", {"inputs": [tensor]}, {name: number}) for name in HEADERS]
    found += [
        (infer, {"inputs": [{**tensor, "shape": Raw(shape.format(number))}]}, {}) for shape in DIMENSIONS
    ]
    found += [
        (
            "/v2/models/arrays/infer",
            {"inputs": [{**tensor, "shape": Raw(shape.format(number)), "data": []}]},
            {},
        )
        for shape in DIMENSIONS
    ]
    outputs = [{"name": "x", "parameters": {"classification": number}}]
    found.append((infer, {"inputs": [tensor], "outputs": outputs}, {}))
    found.append(("/rpc", {"jsonrpc": "2.0", "id": number, "method": "words", "params": {"prompt": "a"}}, {}))
    return found


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: str(number)[:10])
def test_any_number_is_served_or_refused_without_cost(watched: Audited, number: Any) -> None:
    before = watched.rss()
    with httpx.Client(base_url=watched.url, timeout=20) as client:
        for path, body, headers in requests(Raw(number)):
            found = client.post(path, content=dumped(body), headers=headers)
            assert found.status_code < 500 or found.status_code == 501, (path, body, headers, found.text)
    assert watched.rss() < before + 100 * 2**20


MANY = 100_000
LISTS = [
    ("/v1/completions", {"model": "words", "prompt": ["a"] * 129}),
    ("/v1/completions", {"model": "words", "prompt": ["a"] * 64, "n": 3}),
    ("/v1/chat/completions", {"model": "words", "messages": [{"role": "user", "content": "a"}], "n": 129}),
    ("/v1/chat/completions", {"model": "words", "messages": [{"role": "user", "content": "a"}] * 4097}),
    (
        "/v1/chat/completions",
        {"model": "words", "messages": [{"role": "user", "content": "a"}], "stop": ["a"] * MANY},
    ),
    ("/v1/responses", {"model": "words", "input": [{"role": "user", "content": "a"}] * 4097}),
    ("/generate", {"inputs": "a", "parameters": {"best_of": 5, "seed": None}}),
    ("/generate", {"inputs": "a", "parameters": {"stop": ["a"] * MANY}}),
    (
        "/v2/models/echo/infer",
        {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}] * 257},
    ),
    ("/v2/models/echo/infer", {"inputs": [], "outputs": [{"name": "x"}] * 257}),
    ("/rpc", {"jsonrpc": "2.0", "id": 1, "method": "words", "params": {f"p{at}": 1 for at in range(MANY)}}),
    ("/rpc", [{"jsonrpc": "2.0", "id": 1, "method": "words", "params": {"prompt": "a"}}] * 1025),
    ("/v1/completions", {"model": "words", "prompt": ""} | {f"p{at}": 1 for at in range(MANY)}),
]


@pytest.mark.parametrize(("path", "body"), LISTS, ids=range(len(LISTS)))
def test_list_length_is_limited(watched: Audited, path: str, body: Any) -> None:
    found = httpx.post(f"{watched.url}{path}", json=body, timeout=20)
    assert found.status_code in (400, 422) or "error" in found.json(), found.text[:300]


@pytest.mark.parametrize("prompt", ["", [], [""], [[]], None, [None], " "])
def test_empty_prompt_is_served_or_refused(watched: Audited, prompt: object) -> None:
    for path, body in (
        ("/v1/completions", {"model": "words", "prompt": prompt}),
        ("/v1/chat/completions", {"model": "words", "messages": [{"role": "user", "content": prompt}]}),
        ("/v1/embeddings", {"model": "vectors", "input": prompt}),
        ("/generate", {"inputs": prompt}),
        ("/v2/models/words/generate", {"prompt": prompt}),
    ):
        assert httpx.post(f"{watched.url}{path}", json=body, timeout=20).status_code != 500, (path, body)
