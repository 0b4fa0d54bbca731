import pytest

from inferstream.plugins.text.calls.thinking import FORMATS, MAX_START_LENGTH, Thinking


def read(text: str, opened: bool = False) -> list[tuple[str, str]]:
    parser = Thinking(FORMATS["think"], opened)
    return [tuple(delta) for delta in [*parser.push(text), *parser.finish()]]


def test_reasoning_precedes_answer() -> None:
    assert read("\n<think>\na < b</think>\n\nyes <think>") == [
        ("reasoning", "a < b"),
        ("text", "yes <think>"),
    ]
    assert read("<think>\n\n</think>\n\nyes") == [("text", "yes")]


@pytest.mark.parametrize("text", ["a</think>b", "<think>a</think>b"])
def test_prompt_can_open_reasoning(text: str) -> None:
    assert read(text, opened=True) == [("reasoning", "a"), ("text", "b")]


def test_answer_can_omit_reasoning() -> None:
    for text in (" yes", "<", "", " " * MAX_START_LENGTH + "<think>a"):
        assert read(text) == ([("text", text)] if text else [])
