"""The routes of texts: OpenAI's, TGI's and the plain `generate`. What has times in its body is not here."""

from typing import Any

from ..http import Http, get, one, post


def tgi(name: str, path: str, body: dict[str, Any], model: str = "text", **parameters: object) -> Http:
    return post(name, path, {**body, "parameters": parameters, "model": model})


HELLO = {"inputs": "hällo"}

CHAT = {"model": "text", "messages": [{"role": "user", "content": "hällo"}]}
PROMPT = {"model": "text", "prompt": "hällo"}
AFTER = {"input": "hällo", "previous_response_id": "resp_1"}


def openai(prefix: str) -> list[Http]:
    return [
        post(f"{prefix} chat", f"{prefix}/chat/completions", CHAT),
        post(f"{prefix} chat stream", f"{prefix}/chat/completions", {**CHAT, "stream": True}),
        post(f"{prefix} chat without messages", f"{prefix}/chat/completions", {"model": "text"}),
        post(f"{prefix} completion", f"{prefix}/completions", PROMPT),
        post(f"{prefix} completion stream", f"{prefix}/completions", {**PROMPT, "stream": True}),
        post(f"{prefix} response without input", f"{prefix}/responses", {"model": "text"}),
        post(f"{prefix} response after another", f"{prefix}/responses", {"model": "text", **AFTER}),
        post(f"{prefix} conversation", f"{prefix}/conversations", {}),
        post(f"{prefix} embeddings of a model of texts", f"{prefix}/embeddings", PROMPT),
        *(
            post(f"{prefix}{path} of a model of texts", f"{prefix}{path}", {**PROMPT, "input": "hällo"})
            for path in (
                "/audio/speech",
                "/images/generations",
                "/audio/transcriptions",
                "/audio/translations",
            )
        ),
        get(f"{prefix} models", f"{prefix}/models"),
        get(f"{prefix} model", f"{prefix}/models/text"),
        get(f"{prefix} unknown model", f"{prefix}/models/nobody"),
    ]


MESSAGE = {**CHAT, "max_tokens": 100}

ANTHROPIC = [
    post("message", "/v1/messages", MESSAGE),
    post("message stream", "/v1/messages", {**MESSAGE, "stream": True}),
    post("message ended by its length", "/v1/messages", {**MESSAGE, "max_tokens": 1}),
    post(
        "message stream ended by a stop sequence",
        "/v1/messages",
        {**MESSAGE, "stop_sequences": ["ll"], "stream": True},
    ),
    post("message without messages", "/v1/messages", {"model": "text", "max_tokens": 9}),
    post("message without max_tokens", "/v1/messages", CHAT),
    post("message to an unknown model", "/v1/messages", {**MESSAGE, "model": "nobody"}),
    post(
        "message stream that fails before the first",
        "/v1/messages",
        {**MESSAGE, "model": "stream", "fail_at": 0, "stream": True},
    ),
    post(
        "message stream that fails after the first",
        "/v1/messages",
        {**MESSAGE, "model": "stream", "fail_at": 1, "stream": True},
    ),
    post("count of tokens that the model does not tell", "/v1/messages/count_tokens", CHAT),
    post("message no JSON", "/v1/messages", b"{"),
    one("message by GET", "GET", "/v1/messages"),
]

OLLAMA = [
    post("ollama chat stream", "/api/chat", CHAT),
    post("ollama generate stream", "/api/generate", PROMPT),
    post(
        "ollama stream that fails", "/api/generate", {**PROMPT, "model": "stream", "options": {"fail_at": 1}}
    ),
    get("ollama tags", "/api/tags"),
    get("ollama ps", "/api/ps"),
    post("ollama show", "/api/show", {"model": "text"}),
    post("ollama embeddings of a model of texts", "/api/embeddings", {"model": "text", "prompt": "a"}),
    post("ollama chat without messages", "/api/chat", {"model": "text"}),
    post("ollama chat of an unknown model", "/api/chat", {**CHAT, "model": "nobody"}),
    post("ollama generate with a template", "/api/generate", {**PROMPT, "template": "a"}),
    post("ollama embed of a model of texts", "/api/embed", {"model": "text", "input": "a"}),
    post("ollama show without a model", "/api/show", {}),
    post("ollama show of an unknown model", "/api/show", {"model": "nobody"}),
    post("ollama show no JSON", "/api/show", b"{"),
    one("ollama show by GET", "GET", "/api/show"),
    get("ollama version", "/api/version"),
]

RANKED = {"model": "ranks", "query": "red green", "documents": ["red", "blue", "green red"]}

RERANK = [
    post("rerank", "/v1/rerank", RANKED),
    post("rerank with documents", "/v2/rerank", {**RANKED, "return_documents": True, "top_n": 2}),
    post(
        "rerank of texts",
        "/rerank",
        {"model": "ranks", "query": "red", "texts": ["blue", "red"], "return_text": True},
    ),
    post("rerank of KServe", "/openai/v1/rerank", RANKED),
    post("score", "/score", {"model": "ranks", "text_1": "red", "text_2": ["red", "blue"]}),
    post("scores of pairs", "/v1/score", {"model": "ranks", "text_1": ["red", "a"], "text_2": ["red", "b"]}),
    post("rerank without documents", "/v1/rerank", {"model": "ranks", "query": "red"}),
    post("rerank of a model of texts", "/v1/rerank", {**RANKED, "model": "text"}),
    post("rerank of an unknown model", "/v1/rerank", {**RANKED, "model": "nobody"}),
    post("rerank no JSON", "/rerank", b"{"),
    one("rerank by GET", "GET", "/rerank"),
]


CASES = [
    *openai("/v1"),
    *openai("/openai/v1"),
    *ANTHROPIC,
    *OLLAMA,
    *RERANK,
    tgi("tgi", "/generate", HELLO),
    tgi("tgi with details", "/generate", HELLO, details=True, seed=1, return_full_text=True),
    tgi("tgi ended by a stop string", "/generate", HELLO, details=True, stop=["ll"]),
    tgi("tgi at the root", "/", HELLO),
    tgi("tgi stream at the root", "/", {**HELLO, "stream": True}),
    tgi("tgi stream", "/generate_stream", HELLO, "stream"),
    tgi("tgi stream with details", "/generate_stream", HELLO, "stream", details=True),
    tgi(
        "tgi stream ended by its length", "/generate_stream", HELLO, "stream", details=True, max_new_tokens=2
    ),
    tgi(
        "tgi stream ended by a stop string", "/generate_stream", HELLO, "stream", details=True, stop=["m 1it"]
    ),
    tgi("tgi failure before the first", "/generate_stream", HELLO, "stream", fail_at=0),
    tgi("tgi failure after the first", "/generate_stream", HELLO, "stream", fail_at=1),
    tgi("tgi refusal before the first", "/generate", HELLO, "stream", refuse_at=0),
    tgi("tgi refusal after the first", "/generate_stream", HELLO, "stream", refuse_at=1),
    tgi("tgi wrong parameter", "/generate", HELLO, temperature=0),
    tgi("tgi wrong type", "/generate", {"inputs": ["a"]}),
    tgi("tgi grammar", "/generate", HELLO, grammar={"type": "json", "value": {}}),
    tgi("tgi unknown model", "/generate", HELLO, "nobody"),
    tgi("tgi model of other tensors", "/generate", HELLO, "declared"),
    post("tgi without a model", "/generate", HELLO),
    post("tgi no JSON", "/generate", b"{"),
    post("tgi no object", "/generate", []),
    post("generate without a form", "/generate", {"stream": True}),
    post("generate of both forms", "/generate", {"inputs": "a", "prompt": "b"}),
    post("generate_stream of a prompt", "/generate_stream", {"prompt": "b"}),
    post("prompt of a wrong type", "/generate", {"prompt": 3, "model": "text"}),
    post("prompt with wrong tokens", "/generate", {"prompt": "a", "max_tokens": 0, "model": "text"}),
    post("prompt fails before the first", "/generate", {"prompt": "a", "stream": True, "model": "failing"}),
    one("generate by GET", "GET", "/generate"),
    get("tgi info", "/info"),
    get("tgi health", "/health"),
    post("posted tgi health", "/health"),
    post("a prediction of no handler", "/predictions/text", {"data": "a"}),
    post("a prediction of nobody", "/predictions/nobody/1.0", {"data": "a"}),
    get("torchserve's models", "/models"),
    post("an explanation of a model without one", "/v1/models/text:explain", {"instances": ["a"]}),
    get("torchserve's management", "/models/text"),
]
