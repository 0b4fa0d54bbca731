"""Regular expressions and schemas of clients, and expressions of ours that a client's text makes slow."""

import ast
import re
from collections.abc import Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import httpx
import pytest

from tests.cve.audited import Audited
from tests.cve.source import called, nodes

CVES = ("CVE-2025-48944", "CVE-2025-48887")

OF_AUTHORS = {
    "functions/app.py",
    "functions/event.py",
    "plugins/page/docstring_examples.py",
}
"""Expressions of what the author of an app writes: names of services, media types and docstrings, with separators."""

NESTED: dict = {"type": "object", "properties": {}}
for _ in range(60):
    NESTED = {"type": "object", "properties": {"a": NESTED}}

SCHEMAS: dict[str, Any] = {
    "a slow pattern": {"type": "string", "pattern": "^(a+)+$", "default": "a" * 40 + "!"},
    "a broken pattern": {"type": "string", "pattern": "(((["},
    "an unknown type": {"type": "something"},
    "a type that is none": {"type": ["string", 5, None]},
    "itself": {"$ref": "#"},
    "an address": {"$ref": "http://127.0.0.1:1/schema.json"},
    "a deep one": NESTED,
    "a wide one": {"enum": [str(number) for number in range(50_000)]},
    "a great count": {"type": "array", "minItems": 2**31, "items": {"type": "string", "maxLength": 2**63}},
    "a list": ["string"],
    "text": "(a+)+$",
    "nothing": None,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_client_schemas_are_not_compiled_as_patterns(watched: Audited, name: str) -> None:
    schema = SCHEMAS[name]
    function = {"name": "f", "parameters": schema, "strict": True}
    format = {"type": "json_schema", "json_schema": {"name": "f", "schema": schema, "strict": True}}
    chat = {"model": "tools", "messages": [{"role": "user", "content": "a" * 40 + "!"}]}
    pattern = schema.get("pattern") if isinstance(schema, dict) else schema
    for path, body in (
        ("/v1/chat/completions", {**chat, "tools": [{"type": "function", "function": function}]}),
        ("/v1/chat/completions", {**chat, "response_format": format}),
        ("/v1/chat/completions", {**chat, "guided_regex": pattern, "regex": pattern, "stop": "(a+)+$"}),
        ("/v1/responses", {"model": "tools", "input": "a", "tools": [{"type": "function", **function}]}),
        (
            "/v1/responses",
            {
                "model": "tools",
                "input": "a",
                "text": {"format": {"type": "json_schema", **format["json_schema"]}},
            },
        ),
        (
            "/generate",
            {
                "model": "tools",
                "inputs": "a",
                "parameters": {"grammar": {"type": "regex", "value": "(a+)+$"}},
            },
        ),
        (
            "/generate",
            {"model": "tools", "inputs": "a", "parameters": {"grammar": {"type": "json", "value": schema}}},
        ),
    ):
        found = httpx.post(f"{watched.url}{path}", json=body, timeout=10)
        assert found.status_code in (200, 400, 422), (path, found.text[:300])
    assert watched.done("socket.") == []


def patterns() -> Iterator[tuple[str, str | bytes]]:
    """Every expression that the package has as a literal."""
    for name, node in nodes("import re\n"):
        if isinstance(node, ast.Call) and called(node).startswith("re.") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str | bytes):
                yield f"{name}:{node.lineno}", first.value


def repeats(tree: Any, inside: bool = False) -> bool:
    """Whether an expression repeats without a limit what it repeats without a limit."""
    for code, argument in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            _, most, inner = argument
            unlimited = most == codes.MAXREPEAT
            if (unlimited and inside) or repeats(inner, inside or unlimited):
                return True
        elif code is codes.BRANCH:
            if any(repeats(each, inside) for each in argument[1]):
                return True
        elif code is codes.SUBPATTERN:
            if repeats(argument[3], inside):
                return True
        elif code in (codes.ASSERT, codes.ASSERT_NOT) and repeats(argument[1], inside):
            return True
    return False


def test_check_detects_slow_expression() -> None:
    for slow in ("(a+)+$", "(?:x|a*)*b", r"(\s*a*)*$", "((ab*)?)+c*(d+)*"):
        assert repeats(parser.parse(slow)), slow
    for quick in ("a+b*", r"\w+(?:\.\w{1,9})*", "(ab?){2,}"):
        assert not repeats(parser.parse(quick)), quick


def test_own_patterns_have_no_catastrophic_backtracking() -> None:
    found = dict(patterns())
    assert len(found) > 30
    slow = {where.partition(":")[0] for where, pattern in found.items() if repeats(parser.parse(pattern))}
    assert slow == OF_AUTHORS


@pytest.mark.parametrize(
    "unit", [b",", b" ", b"a", b"%", b"/versions/", b"/", b".", b"=", b";", b"resumable", b"[", b":"]
)
def test_repeated_text_in_client_names_is_linear(watched: Audited, unit: bytes) -> None:
    text = re.sub(rb"[^!-~ ]", b"", unit * (16_000 // len(unit))).decode()
    with httpx.Client(base_url=watched.url, timeout=10) as client:
        for name in (
            "Prefer",
            "X-Request-Id",
            "Accept",
            "Content-Type",
            "Origin",
            "Cookie",
            "Accept-Encoding",
        ):
            client.post("/v2/models/echo/infer", content=b"{}", headers={name: f"a{text}a"})
        for path in (
            "/v2/models/",
            "/own/",
            "/proto/",
            "/inference.",
            "/v1/models/",
            "/v2/repository/models/",
        ):
            assert client.get(f"{path}{text}/stream").status_code < 500
