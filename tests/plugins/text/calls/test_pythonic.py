from inferstream.plugins.text.calls.pythonic import Pythonic


def read(text: str) -> list[tuple[str, str]]:
    parser = Pythonic()
    return [tuple(delta) for delta in [*parser.push(text), *parser.finish()]]


def test_values_become_json() -> None:
    assert read("[a.f(x='it\\'s', y=[True, None, -1.5], z={'k': (1,)})]") == [
        ("call", "a.f"),
        ("arguments", '{"x": "it\'s", "y": [true, null, -1.5], "z": {"k": [1]}}'),
    ]


def test_nothing_is_executed_or_guessed() -> None:
    for text in ("[f(x=open('a'))]", "[f(x=1e999)]", "[f(x={1})]", "[f(x=)]"):
        assert read(text) == [("text", text)]


def test_calls_before_broken_call_are_kept() -> None:
    assert read("[f(), g(x=y)]") == [("call", "f"), ("arguments", "{}"), ("text", ", g(x=y)]")]
