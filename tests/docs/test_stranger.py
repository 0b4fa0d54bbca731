"""Somebody with the README alone: two commands, a streamed text in the browser, a changed model that is served."""

import json
import re
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, Page, browser
from tests.serving import eventually

from .blocks import blocks_of
from .sandbox import ROOT, Sandbox

README = ROOT / "README.md"
CHANGE = re.compile(r"replace `([^`]+)` with `([^`]+)` in `([^`]+)`")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install it, or name it in CHROMIUM")

PROMPT = "the quick brown fox jumps over the lazy dog"

WATCH = """
globalThis.seen = new Set();
new MutationObserver(() => {
  const text = document.querySelector(".stream-text");
  if (text !== null) seen.add(text.innerText.trim());
}).observe(document.body, {subtree: true, childList: true, characterData: true});
"""


def said() -> tuple[str, str, str, str]:
    """The address that the README opens, the text to replace in which file, and by which."""
    text = README.read_text()
    [(old, new, file)] = CHANGE.findall(text)
    found = re.search(
        r"Open (http://127.0.0.1:8080/), choose `words`, enter a prompt and press \*Run\*", text
    )
    assert found is not None
    return found[1], old, new, file


def press(page: Page, name: str) -> None:
    page.evaluate(
        f"[...document.querySelectorAll('button')].find((each) => each.innerText.trim() === '{name}').click()"
    )


def streamed(page: Page, text: str) -> list[str]:
    """Press Run, wait until the page shows this text, and return what it has shown meanwhile."""
    page.evaluate("seen.clear()")
    press(page, "Run")
    eventually(lambda: page.evaluate(f"seen.has({json.dumps(text)})"), 60)
    eventually(lambda: page.evaluate("document.querySelector('.note[data-state=done]') !== null"), 30)
    return [each for each in page.evaluate("[...seen]") if each]


def test_new_user_streams_in_two_commands_and_changes_model(tmp_path: Path) -> None:
    address, old, new, file = said()
    [block] = [block for block in blocks_of(README) if "server init" in block.text]
    assert block.text.count("\n$") + 1 == 2
    folder = tmp_path / "clean"
    folder.mkdir()
    sandbox = Sandbox(folder, "README.md")
    try:
        sandbox.run(block)
        with browser() as page:
            page.open(sandbox.real(address))
            choose = (
                "[...document.querySelectorAll('nav a')].find((each) => each.innerText.startsWith('words'))"
            )
            eventually(lambda: page.evaluate(f"{choose} !== undefined"), 30)
            page.evaluate(f"{choose}.click()")
            eventually(lambda: page.evaluate("document.querySelector('textarea') !== null"), 30)
            page.evaluate(WATCH)
            page.evaluate("document.querySelector('textarea').select()")
            page.call("Input.insertText", text=PROMPT)
            texts = streamed(page, PROMPT)
            assert len(texts) >= 5, texts  # each is a part of the stream that was painted

            code = (folder / file).read_text()
            assert old in code
            (folder / file).write_text(code.replace(old, new))
            eventually(lambda: "reloaded model words" in sandbox.written(), 60)
            streamed(page, PROMPT.upper())
    finally:
        sandbox.stop()
