"""The model and the call whose code is running."""

import asyncio
import json

import pytest

from inferstream.context import request_id_var
from inferstream.telemetry import context
from inferstream.telemetry.logs import JSONFormatter, LineFormatter

from .test_logs import record


def test_record_has_the_span_and_request_of_its_call(monkeypatch) -> None:
    assert not context.call_fields()
    monkeypatch.setattr(context, "_current_span", context._current_span)
    context.set_span_source(lambda: ("0af7", "b7ad"))
    token = request_id_var.set("mine ] ERROR - 7")
    try:
        found = json.loads(JSONFormatter().format(record("x")))
        assert (found["trace_id"], found["span_id"], found["request_id"]) == (
            "0af7",
            "b7ad",
            "mine ] ERROR - 7",
        )
        line = LineFormatter().format(record("hello", ValueError("x")))
        end = "INFO - hello [trace_id=0af7 span_id=b7ad request_id=mine ] ERROR - 7]\n  ValueError: x"
        assert line.endswith(end)
    finally:
        request_id_var.reset(token)
    assert LineFormatter().format(record("hello")).endswith("hello [trace_id=0af7 span_id=b7ad]")


def test_model_context_is_the_innermost_and_is_reset() -> None:
    def running() -> tuple[str, str]:
        return context.model_var.get()

    with context.model_context("outer", "1"):
        with pytest.raises(ValueError), context.model_context("inner", None):
            assert running() == ("inner", "")
            raise ValueError
        assert running() == ("outer", "1")
    assert running() == ("", "")


async def test_concurrent_tasks_have_separate_models() -> None:
    async def name(model: str) -> str:
        with context.model_context(model, None):
            await asyncio.sleep(0)
            return context.model_var.get()[0]

    assert await asyncio.gather(*map(name, "abc")) == ["a", "b", "c"]
