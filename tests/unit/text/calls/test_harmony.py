from inferstream.text.calls.harmony import Harmony


def read(text: str) -> list[tuple[str, str]]:
    parser = Harmony()
    return [tuple(delta) for delta in [*parser.push(text), *parser.finish()]]


def test_channels() -> None:
    output = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes"
    assert read(output) == [("reasoning", "hm"), ("text", "yes")]


def test_a_function_may_be_named_in_the_role() -> None:
    output = "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>"
    assert read(output) == [("call", "f"), ("arguments", "{}")]


def test_a_recipient_that_is_no_function_is_called_by_nobody() -> None:
    assert read("<|channel|>analysis to=browser.search<|message|>{}<|call|>") == [("reasoning", "{}")]
