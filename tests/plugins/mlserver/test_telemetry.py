"""Log lines, metrics and traces under MLServer's names."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from inferstream.ext.hosting import install_aliases
from inferstream.ext.telemetry import LogFormatter, model_var

install_aliases()


from prometheus_client import Counter

install_aliases()

from mlserver.logging import ModelLoggerFormatter  # type: ignore[import-not-found]
from mlserver.settings import Settings  # type: ignore[import-not-found]


@contextmanager
def model_context(name: str, version: str) -> Iterator[None]:
    """A block that runs as the code of a model."""
    token = model_var.set((name, version))
    yield
    model_var.reset(token)


def test_logger_is_configured_next_to_program_loggers(capsys) -> None:
    from mlserver import Settings
    from mlserver.logging import configure_logger, logger

    root, own, ours = logging.getLogger(), logging.NullHandler(), logging.getLogger("inferstream")
    levels = logger.level, ours.level
    before = [*root.handlers]
    root.addHandler(own)
    try:
        configure_logger(Settings(debug=True))
        assert configure_logger(Settings(use_structured_logging=True)) is logger
        assert root.handlers == [*before, own]
        assert logger.level == logging.INFO
        for each in (logger, ours):
            each.info("one line")
            assert json.loads(capsys.readouterr().out)["message"] == "one line"
    finally:
        root.removeHandler(own)
        for each, level in zip((logger, ours), levels, strict=True):
            each.handlers.clear()
            each.setLevel(level)


def test_log_lines_are_not_duplicated() -> None:
    from mlserver.logging import configure_logger, logger

    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(LogFormatter.of(structured=False))
    root.addHandler(handler)
    before = [*logger.handlers]
    try:
        configure_logger()
        assert logger.handlers == before
    finally:
        root.removeHandler(handler)


def test_log_lines_contain_model() -> None:
    from mlserver import Settings
    from mlserver.logging import ModelLoggerFormatter

    record = logging.LogRecord("mlserver", logging.INFO, "", 1, 'a "quote"', (), None)
    with model_context("m", "v"):
        assert "[mlserver][m:v] INFO - " in ModelLoggerFormatter(None).format(record)
        structured = ModelLoggerFormatter(Settings(use_structured_logging=True)).format(record)
    assert json.loads(structured)["message"] == 'a "quote"'


def test_metrics_can_be_read_as_prometheus_clients() -> None:
    from mlserver.metrics import REGISTRY, log
    from prometheus_client import REGISTRY as SHOWN

    with model_context("m", "v"):
        log(test_names_read=2)
    labels = {"model_name": "m", "model_version": "v"}
    assert REGISTRY.get_sample_value("test_names_read_sum", labels) == 2
    counter = Counter("test_names_counted", "A counter", registry=REGISTRY)
    counter.inc()
    try:
        assert SHOWN.get_sample_value("test_names_counted_total") == 1
    finally:
        SHOWN.unregister(counter)


def test_spans_use_global_provider() -> None:
    from mlserver import Settings
    from mlserver.tracing import get_tracer_provider
    from opentelemetry import trace

    assert get_tracer_provider(Settings()) is trace.get_tracer_provider()


@pytest.mark.parametrize(
    ("name", "version", "line", "fields"),
    [
        ("foo", "v1", "[foo:v1]", ', "model_name": "foo", "model_version": "v1"'),
        ("foo", "", "[foo]", ', "model_name": "foo"'),
        ('a"b', "", '[a"b]', ', "model_name": "a\\"b"'),
        ("", "v1", "", ""),
    ],
)
def test_log_records_name_model(name: str, version: str, line: str, fields: str) -> None:
    for structured, expected in ((False, line), (True, fields)):
        record = logging.LogRecord("mlserver", logging.INFO, "", 1, "hello", (), None)
        formatter = ModelLoggerFormatter(Settings(use_structured_logging=structured))
        formatter.format(record)
        assert record.model == ""  # type: ignore[attr-defined]
        with model_context(name, version):
            shown = formatter.format(record)
        assert record.model == expected  # type: ignore[attr-defined]
        if structured:
            assert json.loads(shown).get("model_name", "") == name
