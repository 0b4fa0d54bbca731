"""One record per event, whatever is written into it."""

import json
import logging
import re
import sys

import pytest

from inferstream.telemetry.context import model_context
from inferstream.telemetry.logs import JSONFormatter, LineFormatter, configure_logging

EVIL = 'a\r\nfake record \x1b[31mred "quoted" \x00'


def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("inferstream.x", logging.INFO, "f", 1, message, (), info)


def test_message_cannot_start_a_new_line() -> None:
    line = LineFormatter().format(record(EVIL))
    assert line.isprintable()
    assert "\\r\\nfake record" in line


def test_traceback_lines_are_indented_and_escaped() -> None:
    lines = LineFormatter().format(record("failed", ValueError(EVIL))).split("\n")
    assert all(line.startswith("  ") for line in lines[1:])
    assert all(line.isprintable() for line in lines)


def test_structured_record_is_a_json_object_with_the_model() -> None:
    with model_context("m", "1"):
        text = JSONFormatter().format(record(EVIL, ValueError("x")))
    assert "\n" not in text
    found = json.loads(text)
    assert found["message"] == EVIL
    assert (found["model_name"], found["model_version"], found["level"]) == ("m", "1", "INFO")
    assert "ValueError" in found["exception"]


def test_line_names_the_running_model() -> None:
    with model_context("m", "1"):
        assert "[inferstream.x][m:1] INFO - hello" in LineFormatter().format(record("hello"))


@pytest.fixture
def _logging_as_it_was():
    """Every logger's: other tests read what the server's own ones say."""
    known = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    before = {
        one: (one.level, one.propagate, one.disabled, one.handlers[:]) for one in [logging.root, *known]
    }
    yield
    for one in [*logging.root.manager.loggerDict.values(), logging.root]:
        if isinstance(one, logging.Logger):
            level, propagate, disabled, handlers = before.get(one, (logging.NOTSET, True, False, []))
            one.setLevel(level)
            one.propagate, one.disabled, one.handlers[:] = propagate, disabled, handlers


@pytest.mark.usefixtures("_logging_as_it_was")
def test_custom_configuration_is_applied_last(tmp_path) -> None:
    configure_logging(
        "DEBUG", structured=False, custom={"version": 1, "loggers": {"mine": {"level": "ERROR"}}}
    )
    assert logging.getLogger("mine").level == logging.ERROR
    assert logging.getLogger("inferstream").level == logging.DEBUG
    file = tmp_path / "logging.json"
    file.write_text('{"version": 1, "loggers": {"other": {"level": "CRITICAL"}}}')
    configure_logging("INFO", structured=True, custom=str(file))
    assert logging.getLogger("other").level == logging.CRITICAL
    assert logging.getLogger().handlers[0].stream is sys.stdout
    with pytest.raises(ValueError, match="version"):
        configure_logging("INFO", structured=False, custom={"version": 7})


RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"


def test_structured_timestamp_is_rfc_3339() -> None:
    made = record("x")
    made.created = 1767268800.1234
    assert json.loads(JSONFormatter().format(made))["time"] == "2026-01-01T12:00:00.123+00:00"
    made.created = 1767268800.0
    assert re.fullmatch(RFC3339, json.loads(JSONFormatter().format(made))["time"])


def test_record_fields_are_json_fields() -> None:
    made = record("done")
    made.fields = {"status": "success", "ms": 1.5, "items": 3, "time": "mine", "strange": object}
    found = json.loads(JSONFormatter().format(made))
    assert (found["status"], found["ms"], found["items"], found["message"]) == ("success", 1.5, 3, "done")
    assert re.fullmatch(RFC3339, found["time"])
    made.fields = "no object"
    assert json.loads(JSONFormatter().format(made))["message"] == "done"
    assert "success" not in LineFormatter().format(made)
