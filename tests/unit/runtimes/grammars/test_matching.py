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
from inferstream.runtimes.grammars import matching, trial
from inferstream.runtimes.grammars.matching import FormedText, Grammars

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
    return "".join(map(chr, np.flatnonzero(writing.allowed(BYTES))))


def test_the_tokens_that_may_come_are_those_of_the_grammar(grammars: Grammars) -> None:
    writing = begun(grammars, CHOICE)
    assert allowed(writing) == "jn"
    assert [writing.take(byte) for byte in b"nei"] == [False] * 3
    assert allowed(writing) == "n"
    logits = np.arange(BYTES, dtype=np.float32)
    assert np.flatnonzero(writing.restricted(None, logits) > -np.inf).tolist() == [ord("n")]
    assert writing.take(ord("n")) is True


def test_a_mask_may_be_larger_than_the_tokens(grammars: Grammars) -> None:
    mask = begun(grammars, CHOICE).allowed(1000)
    assert (mask.dtype, mask.size, mask.sum()) == (np.bool_, 1000, 2)


def test_texts_of_one_form_do_not_share_where_they_are(grammars: Grammars) -> None:
    first = begun(grammars, CHOICE)
    first.take(ord("j"))
    assert (allowed(first), allowed(begun(grammars, CHOICE))) == ("a", "jn")
    assert grammars.begin(CHOICE) is grammars.begin(CHOICE)


def test_a_token_that_may_not_come_is_an_error(grammars: Grammars) -> None:
    with pytest.raises(InvalidRequest, match="too complex for this text"):
        begun(grammars, CHOICE).take(ord("x"))
    text = FormedText(grammars.begin(CHOICE, "guided_choice").result(WAIT).deep_copy(), "guided_choice")
    with pytest.raises(InvalidRequest, match="guided_choice is too complex for this text"):
        text.take(ord("x"))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (regex("(a"), "response_format: .*unclosed group"),
        ("{", "response_format: it cannot be read"),
        ("[]", "response_format: it cannot be read"),
        (regex("a" * matching.LARGEST), "has more than 65536 characters"),
        (regex("(" * 20_000), "response_format: "),
    ],
)
def test_a_wrong_form_is_refused_in_a_sentence(grammars: Grammars, form: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as refused:
        grammars.begin(form).result(WAIT)
    assert refused.value.detail == [
        {"loc": ["response_format"], "msg": refused.value.message, "type": "value_error"}
    ]
    assert len(refused.value.message) < 400


def test_an_error_names_the_input_that_asked(grammars: Grammars) -> None:
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
def test_an_evil_schema_is_refused_or_ready_and_its_process_has_ended(
    grammars: Grammars, schema: dict[str, Any]
) -> None:
    form = json.dumps({"type": "json_schema", "json_schema": {"schema": schema}}, separators=(",", ":"))
    future = grammars.begin(form)
    error = future.exception(WAIT)
    assert error is None or isinstance(error, InvalidRequest), error


def test_a_trial_that_takes_too_long_is_ended_by_its_own_limit(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    program = tmp_path / "trial.py"
    program.write_text("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass\n")
    monkeypatch.setattr(trial, "__file__", str(program))
    with pytest.raises(InvalidRequest, match="too complex: it takes more than 1 s or memory"):
        grammars.begin(CHOICE).result(WAIT)


def test_the_latest_grammars_are_kept(grammars: Grammars, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(grammars, "_made", lambda form, name: made.append(form))
    for form in [*map(str, range(matching.KEPT)), "0", "new", "0", "1"]:
        grammars.begin(form).result(WAIT)
    assert made[matching.KEPT :] == ["new", "1"]


def test_a_fault_of_the_machine_is_not_kept(grammars: Grammars, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[Exception | None] = [OSError("no process"), None, InvalidRequest("wrong")]

    def made(form: str, name: str) -> str:
        if (fault := faults.pop(0)) is not None:
            raise fault
        return form

    monkeypatch.setattr(grammars, "_made", made)
    assert isinstance(grammars.begin("a").exception(WAIT), OSError)
    assert grammars.begin("a").result(WAIT) == grammars.begin("a").result(WAIT) == "a"
    for _ in range(2):
        assert isinstance(grammars.begin("b").exception(WAIT), InvalidRequest)


def test_so_many_wait_and_the_next_is_told_to_come_later(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    monkeypatch.setattr(grammars, "_made", lambda form, name: go_on.wait(WAIT))
    waiting: list[Future[Any]] = [grammars.begin(str(number)) for number in range(matching.WAITING)]
    with pytest.raises(Overloaded):
        grammars.begin("another")
    assert grammars.begin("3") is waiting[3]
    go_on.set()
    assert all(each.result(WAIT) for each in waiting)


def test_a_model_whose_tokenizer_cannot_be_read_takes_no_forms(caplog: pytest.LogCaptureFixture) -> None:
    def tokens() -> Any:
        raise ValueError("Only fast tokenizers are supported")

    with pytest.raises(InvalidRequest, match="llguidance cannot read the model's tokenizer"):
        Grammars(tokens).begin(CHOICE)
    assert "cannot read a tokenizer" in caplog.text


def test_without_the_library_the_error_names_the_extra() -> None:
    def tokens() -> Any:
        raise ModuleNotFoundError("No module named 'llguidance'", name="llguidance")

    with pytest.raises(
        InvalidRequest, match=r'^response_format needs llguidance: pip install "inferstream\[grammar\]"'
    ):
        Grammars(tokens).begin(CHOICE)
    with pytest.raises(ModuleNotFoundError):
        Grammars(lambda: __import__("no_such_module"))
