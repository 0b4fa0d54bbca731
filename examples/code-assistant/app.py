"""A code assistant: continues Python at the cursor, one token after another, until the code behind the cursor.

It has learnt which token follows which others from Python's own library, and prefers what the open file does. Editors
that speak OpenAI's completions send the code before the cursor as `prompt`, and that behind it as `suffix`. When its
user types on, an editor drops the stream, and the generator is closed.
"""

import argparse
import ast
import collections
import dataclasses
import inspect
import json.encoder
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from inferstream import App, State

LIBRARY = (argparse, collections, dataclasses, inspect, json.encoder)
LONGEST = 8
"""Tokens before the cursor that are looked at."""

MOST = 100
"""Tokens that are written, because code may go on in a circle."""

DOCSTRING = re.compile('""".*?"""', re.DOTALL)
TOKEN = re.compile(r"\w+|[ \t]+|\n|[^\w\s]")

Following = dict[tuple[str, ...], Counter[str]]

app = App()


def learn(code: str, longest: int = LONGEST) -> Following:
    """How often each token follows the ones before it."""
    following: Following = defaultdict(Counter)
    tokens = TOKEN.findall(code)
    for at, token in enumerate(tokens):
        for length in range(1, min(longest, at) + 1):
            following[tuple(tokens[at - length : at])][token] += 1
    return following


def likeliest(before: Sequence[str], known: Sequence[Following]) -> str | None:
    """The token that followed the most of those before the cursor."""
    for length in range(min(LONGEST, len(before)), 0, -1):
        for following in known:
            if counts := following.get(tuple(before[-length:])):
                return counts.most_common(1)[0][0]
    return None


@app.on_load
def read_library() -> None:
    code = [ast.unparse(ast.parse(inspect.getsource(module))) for module in LIBRARY]  # without comments
    app.state.library = learn(DOCSTRING.sub("", "\n".join(code)), 4)


@app.model
def complete(prompt: str, state: State, suffix: str = "", lines: int = 3) -> Iterator[str]:
    """The code at the cursor.

    Args:
        prompt: The code before the cursor.
        suffix: The code behind it.
        lines: How many lines it writes at most.

    Examples:
        >>> complete("for item in items:\\n    print(item)\\n\\nfor item in")
        >>> complete("import json\\n\\nwith open(path) as file:\\n    print(", suffix=")")
    """
    before = TOKEN.findall(prompt)
    known = (learn(prompt), learn(suffix), state.library)
    behind = TOKEN.match(suffix.lstrip())
    for _ in range(MOST):
        token = likeliest(before, known)
        if token is None or (behind is not None and token == behind[0]):
            return
        yield token
        before.append(token)
        lines -= token == "\n"
        if lines == 0:
            return
