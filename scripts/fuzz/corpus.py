"""The requests of the wire corpus as seeds: right ones, and wrong ones in ways that somebody has thought of."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from tests.wire import corpus, folder, http, rpc, websocket

from . import mutations


def serve(root: Path) -> None:
    """Write the corpus' models into a folder, and what a server needs to serve them."""
    folder.write_folder(root)
    folder.write_later(root)


@cache
def http_requests() -> list[bytes]:
    """Requests whose recorded answer is no failure of a server, which a mutation of them might have too."""
    cases = [case for case in _cases(http.Http) if case.while_open is None and not case.metrics_port]
    return [request for case in cases for request in case.requests]


@cache
def socket_messages() -> list[str | bytes]:
    steps = [step for case in _cases(websocket.Socket) for step in case.steps]
    found = [json.dumps(step) if isinstance(step, dict) else step for step in steps]
    return [step for step in found if isinstance(step, str | bytes)]


@cache
def rpcs() -> list[tuple[str, bytes]]:
    """Methods with one message each."""
    cases = [(case, case.sent if isinstance(case.sent, list) else [case.sent]) for case in _cases(rpc.Rpc)]
    return [(case.method, sent) for case, all_sent in cases for sent in all_sent if isinstance(sent, bytes)]


def _cases(kind: type[Any]) -> list[Any]:
    found = []
    for face, cases in corpus.FACES.items():
        path = corpus.RESPONSES / f"{face}.json"
        answers = json.loads(path.read_text()) if path.exists() else {}
        found += [each for each in cases if isinstance(each, kind) and _harmless(answers.get(each.name))]
    return found


def _harmless(answer: Any) -> bool:
    """Whether what was recorded is no server error, of which the models of the corpus make some."""
    text = json.dumps(answer)
    codes = ('"status": 5', "INTERNAL", "UNKNOWN", "internal", "DATA_LOSS")
    return answer is not None and not any(code in text for code in codes)


def mutated_http(choose: random.Random) -> bytes:
    """A request of the corpus with a changed document, or changed bytes."""
    head, end, body = choose.choice(http_requests()).partition(b"\r\n\r\n")
    if b"content-length" in head.lower() and choose.random() < 0.7:
        changed = mutated(body, choose)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
        return b"\r\n".join((*lines, b"Content-Length: %d" % len(changed))) + end + changed
    return mutations.broken(head + end + body, choose)


def mutated(body: bytes, choose: random.Random) -> bytes:
    """A body with one part of its document changed, or with changed bytes where it is no JSON."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return mutations.broken(body, choose)
    if choose.random() < 0.3 or not isinstance(document, dict | list):
        return mutations.broken(body, choose)
    for _ in range(choose.choice([1, 1, 2])):
        mutations.change(document, choose)
    return json.dumps(document).encode("utf-8", "surrogatepass")
