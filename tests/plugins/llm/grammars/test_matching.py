"""Grammars that are made ready beside the model: what is kept, what is refused, and that a trial has an end."""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from threading import Event
from typing import Any

import numpy as np
import pytest
from llguidance import LLTokenizer

from inferstream.errors import InvalidRequest, Overloaded
from inferstream.plugins.llm.grammars import matching, trial
from inferstream.plugins.llm.grammars.matching import FormedText, Grammars

CHOICE = json.dumps({"type": "choice", "choice": ["ja", "nein"]})
BYTES = 256
WAIT = 60


def regex(pattern: str) -> str:
    return json.dumps({"type": "regex", "regex": pattern})


@pytest.fixture
def grammars() -> Iterator[Grammars]:
    made = Grammars(lambda: LLTokenizer("byte"))
    yield made
    made.close()


def begun(grammars: Grammars, form: str) -> FormedText:
    return FormedText(grammars.begin(form).result(WAIT).deep_copy())


def allowed(writing: FormedText) -> str:
    return "".join(map(chr, np.flatnonzero(writing.allowed_mask(BYTES))))


def test_allowed_tokens_match_grammar(grammars: Grammars) -> None:
    writing = begun(grammars, CHOICE)
    assert allowed(writing) == "jn"
    assert [writing.add_token(byte) for byte in b"nei"] == [False] * 3
    assert allowed(writing) == "n"
    logits = np.arange(BYTES, dtype=np.float32)
    assert np.flatnonzero(writing.mask_logits(None, logits) > -np.inf).tolist() == [ord("n")]
    assert writing.add_token(ord("n")) is True


def test_mask_can_exceed_vocabulary(grammars: Grammars) -> None:
    mask = begun(grammars, CHOICE).allowed_mask(1000)
    assert (mask.dtype, mask.size, mask.sum()) == (np.bool_, 1000, 2)


def test_texts_of_one_format_have_separate_state(grammars: Grammars) -> None:
    first = begun(grammars, CHOICE)
    first.add_token(ord("j"))
    assert (allowed(first), allowed(begun(grammars, CHOICE))) == ("a", "jn")
    assert grammars.begin(CHOICE) is grammars.begin(CHOICE)


def test_disallowed_token_is_an_error(grammars: Grammars) -> None:
    with pytest.raises(InvalidRequest, match="too complex for this text"):
        begun(grammars, CHOICE).add_token(ord("x"))
    text = FormedText(grammars.begin(CHOICE, "guided_choice").result(WAIT).deep_copy(), "guided_choice")
    with pytest.raises(InvalidRequest, match="guided_choice is too complex for this text"):
        text.add_token(ord("x"))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (regex("(a"), "response_format: .*unclosed group"),
        ("{", "response_format: it cannot be read"),
        ("[]", "response_format: it cannot be read"),
        (regex("a" * matching.MAX_FORMAT_LENGTH), "has more than 65536 characters"),
        (regex("(" * 20_000), "response_format: "),
    ],
)
def test_invalid_format_is_refused_in_one_sentence(grammars: Grammars, form: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        grammars.begin(form).result(WAIT)
    assert refused.value.detail == [
        {"loc": ["response_format"], "msg": refused.value.message, "type": "value_error"}
    ]
    assert len(refused.value.message) < 400


def test_error_names_the_requesting_input(grammars: Grammars) -> None:
    for name in ("tools", "response_format"):
        with pytest.raises(InvalidRequest, match=f"^{name}: .*unclosed group"):
            grammars.begin(regex("(a"), name).result(WAIT)


def evil_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    properties = {f"p{index}": {} for index in range(5000)}
    yield "properties", {"type": "object", "properties": properties}
    patterns = [{"type": "string", "pattern": f"^.*a.{{{index}}}b"} for index in range(20)]
    yield "patterns", {"allOf": patterns}
    twice = {f"d{index}": {"allOf": [{"$ref": f"#/$defs/d{index + 1}"}] * 2} for index in range(60)}
    yield "references", {"$defs": {**twice, "d60": {"pattern": "a{1000}"}}, "$ref": "#/$defs/d0"}
    yield "counts", {"type": "string", "pattern": "(((a{1,100}){1,100}){1,100}){1,100}b"}
    wide = {"anyOf": [{"type": "object", "properties": {f"p{index}": {}}} for index in range(1500)]}
    yield "any of", wide


@pytest.mark.parametrize("schema", [pytest.param(schema, id=name) for name, schema in evil_schemas()])
def test_malicious_schema_is_refused_or_compiled_and_process_ends(
    grammars: Grammars, schema: dict[str, Any]
) -> None:
    form = json.dumps({"type": "json_schema", "json_schema": {"schema": schema}}, separators=(",", ":"))
    future = grammars.begin(form)
    error = future.exception(WAIT)
    assert error is None or isinstance(error, InvalidRequest), error


def test_slow_trial_is_ended_by_its_limit(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    program = tmp_path / "trial.py"
    program.write_text("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass\n")
    monkeypatch.setattr(trial, "__file__", str(program))
    with pytest.raises(InvalidRequest, match="too complex: it takes more than 1 s or memory"):
        grammars.begin(CHOICE).result(WAIT)


def test_latest_grammars_are_cached(grammars: Grammars, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(grammars, "_compile", lambda form, name: made.append(form))
    for form in [*map(str, range(matching.KEPT)), "0", "new", "0", "1"]:
        grammars.begin(form).result(WAIT)
    assert made[matching.KEPT :] == ["new", "1"]


def test_machine_failure_is_not_cached(grammars: Grammars, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[Exception | None] = [OSError("no process"), None, InvalidRequest("wrong")]

    def made(form: str, name: str) -> str:
        if (fault := faults.pop(0)) is not None:
            raise fault
        return form

    monkeypatch.setattr(grammars, "_compile", made)
    assert isinstance(grammars.begin("a").exception(WAIT), OSError)
    assert grammars.begin("a").result(WAIT) == grammars.begin("a").result(WAIT) == "a"
    for _ in range(2):
        assert isinstance(grammars.begin("b").exception(WAIT), InvalidRequest)


def test_full_queue_refuses_next_request(grammars: Grammars, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Event()
    monkeypatch.setattr(grammars, "_compile", lambda form, name: go_on.wait(WAIT))
    waiting: list[Future[Any]] = [grammars.begin(str(number)) for number in range(matching.WAITING)]
    with pytest.raises(Overloaded):
        grammars.begin("another")
    assert grammars.begin("3") is waiting[3]
    go_on.set()
    assert all(each.result(WAIT) for each in waiting)


def test_model_with_unreadable_tokenizer_declares_no_formats(caplog: pytest.LogCaptureFixture) -> None:
    def tokens() -> Any:
        raise ValueError("Only fast tokenizers are supported")

    with pytest.raises(InvalidRequest, match="llguidance cannot read the model's tokenizer"):
        Grammars(tokens).begin(CHOICE)
    assert "does not support the tokenizer" in caplog.text


def test_missing_library_error_names_extra() -> None:
    def tokens() -> Any:
        raise ModuleNotFoundError("No module named 'llguidance'", name="llguidance")

    with pytest.raises(
        InvalidRequest,
        match=r'^response_format needs llguidance, which is not installed; hint: pip install "llguidance',
    ):
        Grammars(tokens).begin(CHOICE)
    with pytest.raises(ModuleNotFoundError):
        Grammars(lambda: __import__("no_such_module"))
