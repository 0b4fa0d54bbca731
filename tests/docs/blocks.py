"""The code blocks of a page, each with what the comments above it say of running it.

`<!-- not run: REASON -->` excuses a block. `<!-- file: NAME -->` says that the block is a file; so does a first line
`# NAME.py`. `<!-- output may differ -->` compares no output. `<!-- fails -->` is above commands that end with
an error, `<!-- serves -->` above a program that serves until it is stopped, and `<!-- cell -->` above Python that an
event loop runs, as cells of a notebook.
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(
    r"(?P<comments>(?:^ *<!-- (?:(?!-->).)*?-->[ \n]*\n)*)"
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
SAID = re.compile(r"<!-- *(.*?) *-->", re.DOTALL)
FILE = re.compile(r"# ([\w/-]+\.py)[:,\n]")
KEYS = ("not run", "file", "output may differ", "fails", "serves", "cell")


class Block(NamedTuple):
    """A fenced block. `said` holds the comments above it by their first words."""

    line: int
    language: str
    text: str
    said: dict[str, str]

    @property
    def file(self) -> str | None:
        """The name of the file that this block is; None for a block to run."""
        if "file" in self.said:
            return self.said["file"]
        found = FILE.match(self.text)
        return found[1] if found and self.language == "python" else None


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in their order. Raises ValueError for a comment that means nothing."""
    text = page.read_text("utf-8")
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("indent")) + 1
        said = dict(_said(comment, line) for comment in SAID.findall(match["comments"]))
        found.append(Block(line, match["language"], textwrap.dedent(match["text"]), said))
    return found


def _said(comment: str, line: int) -> tuple[str, str]:
    for key in KEYS:
        if comment == key or comment.startswith(f"{key}:"):
            return key, textwrap.dedent(comment[len(key) + 1 :].strip("\n ") or "yes")
    raise ValueError(
        f"line {line}: {comment!r} says nothing of the block below; it begins with one of {KEYS}"
    )
