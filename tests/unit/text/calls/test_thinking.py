import pytest

from inferstream.text.calls.thinking import FORMATS, LONGEST, Thinking


def read(text: str, opened: bool = False) -> list[tuple[str, str]]:
    parser = Thinking(FORMATS["think"], opened)
    return [tuple(delta) for delta in [*parser.push(text), *parser.finish()]]


def test_reasoning_comes_before_the_answer() -> None:
    assert read("\n<think>\na < b</think>\n\nyes <think>") == [
        ("reasoning", "a < b"),
        ("text", "yes <think>"),
    ]
    assert read("<think>\n\n</think>\n\nyes") == [("text", "yes")]


@pytest.mark.parametrize("text", ["a</think>b", "<think>a</think>b"])
def test_the_prompt_may_have_opened_it(text: str) -> None:
    assert read(text, opened=True) == [("reasoning", "a"), ("text", "b")]


def test_an_answer_may_do_without() -> None:
    for text in (" yes", "<", "", " " * LONGEST + "<think>a"):
        assert read(text) == ([("text", text)] if text else [])
