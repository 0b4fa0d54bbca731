from inferstream.plugins.text.calls.harmony import Harmony


def read(text: str) -> list[tuple[str, str]]:
    parser = Harmony()
    return [tuple(delta) for delta in [*parser.push(text), *parser.finish()]]


def test_channels() -> None:
    output = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes"
    assert read(output) == [("reasoning", "hm"), ("text", "yes")]


def test_role_can_name_function() -> None:
    output = "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>"
    assert read(output) == [("call", "f"), ("arguments", "{}")]


def test_unknown_recipient_is_not_called() -> None:
    assert read("<|channel|>analysis to=browser.search<|message|>{}<|call|>") == [("reasoning", "{}")]
