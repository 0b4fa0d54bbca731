"""The tests of pages notice a page that is wrong."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .blocks import blocks_of
from .sandbox import Failed, Sandbox, commands_of, matches


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    folder = tmp_path / "clean"
    folder.mkdir()
    sandbox = Sandbox(folder, "page.md")

    def run(text: str) -> None:
        (tmp_path / "page.md").write_text(text)
        for block in blocks_of(tmp_path / "page.md"):
            sandbox.run(block)

    yield run
    sandbox.stop()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```console\n$ echo a\nb\n```", "line 1: `echo a` writes\na\n\nand the page says\nb"),
        ("text\n\n```console\n$ false\n```", "line 3: `false` ends with 1"),
        (
            "```console\n$ server start nothing\n```",
            "does not serve:\nerror: there is no file or folder nothing",
        ),
        ("```python\nnothing\n```", "NameError: name 'nothing' is not defined"),
        ("```python\nasync def test_it(): assert 1 == 2\n```", "AssertionError"),
        ("```python\n# app.py\ndef (\n```", "app.py does not compile"),
        ("```json\n{'a': 1}\n```", "it is no JSON"),
        ("```rust\nfn main() {}\n```", 'a block of "rust" is neither a file nor excused'),
        ("```\nplain\n```", 'a block of "" is neither a file nor excused'),
    ],
)
def test_wrong_block_fails(run: Callable[[str], None], text: str, reason: str) -> None:
    with pytest.raises(Failed) as failed:
        run(text)
    assert reason in str(failed.value)


def test_meaningless_comment_is_an_error(run: Callable[[str], None]) -> None:
    with pytest.raises(ValueError, match="line 2: 'skip' says nothing"):
        run("<!-- skip -->\n```rust\n```")


def test_blocks_see_state_of_earlier_blocks(run: Callable[[str], None]) -> None:
    run(
        "```python\n# words.py\nhello = 'hi'\n```\n"
        "<!-- file: a/b.txt -->\n\n```\ntext\n```\n"
        "```python\nmore = 1\n```\n"
        "```python\nfrom words import hello\nimport asyncio\nawait asyncio.sleep(0)\nassert hello == 'hi'\n```\n"
        "```python\nassert more == 1\n```\n"
        "```console\n$ cat a/b.txt\ntext\n```\n"
        "<!-- not run: REASON -->\n\n```rust\nfn\n```\n"
        "<!-- output may differ -->\n\n```console\n$ date\nnow\n```\n"
    )


def test_commands_can_span_lines() -> None:
    text = "$ curl x -d '{\n  \"a\": 1}'   # comment\nout 1\n\nout 2\n$ cat > f <<'E'\nline\nE\n$ a \\\n  b\n"
    assert commands_of(text) == [
        ("curl x -d '{\n  \"a\": 1}'   # comment", "out 1\n\nout 2"),
        ("cat > f <<'E'\nline\nE", None),
        ("a \\\n  b", None),
    ]
    assert commands_of("one\ntwo\n") == [("one", None), ("two", None)]


@pytest.mark.parametrize(
    ("expected", "written", "same"),
    [
        ("a", "a\n", True),
        ("a", "ab", False),
        ("a...c", "abbc", True),
        ("a\n...", "a\nb\nc", True),
        ("a\n...", "a", True),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("(a) {", "(a) {", True),
    ],
)
def test_ellipsis_matches_any_output(expected: str, written: str, same: bool) -> None:
    assert matches(expected, written) is same
