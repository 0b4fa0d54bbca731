"""The messages in docs/troubleshooting.md are messages of the package."""

import ast
import re

import pytest

from .sandbox import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
MESSAGES = re.findall(r"^### `(.+)`$", PAGE.read_text(), re.M)

VALUE = re.compile(r'"?\b[A-Z]{2,}\b"?|%[sd]|%\S*[fg]|`')
"""A placeholder of the page, such as `NAME`, or of the source, and marks that the page leaves out."""


def literals() -> str:
    """The literal text of every string of the package, with a line break in the place of each value."""
    found = []
    for file in (ROOT / "inferstream").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "\n" for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


LITERALS = VALUE.sub("\n", literals())


def fixed_parts(message: str) -> list[str]:
    parts = (part.strip(' "') for part in VALUE.split(message))
    return [part for part in parts if len(part) > 3]


@pytest.mark.parametrize("message", MESSAGES)
def test_documented_messages_exist_in_package(message: str) -> None:
    parts = fixed_parts(message)
    assert parts
    for part in parts:
        assert part in LITERALS, part


def test_page_lists_many_messages() -> None:
    assert len(MESSAGES) >= 25
    assert len(set(MESSAGES)) == len(MESSAGES)
