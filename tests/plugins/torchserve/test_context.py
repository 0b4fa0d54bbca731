"""The context of a handler."""

import logging

import pytest

from inferstream.plugins.torchserve.context import HandlerContext


def context() -> HandlerContext:
    made = HandlerContext("m", "/folder", {"model": {}}, 4, None, {"handler": 1})
    made.begin(["a", "b"], [{"x-said": "so"}, {}])
    return made


def test_the_model() -> None:
    made = context()
    assert made.system_properties["model_dir"] == "/folder"
    assert made.system_properties["batch_size"] == 4
    assert made.system_properties["gpu_id"] is None
    assert made.model_yaml_config == {"handler": 1}


def test_requests_and_responses_of_a_call() -> None:
    made = context()
    assert made.get_request_id() == "a"
    assert made.get_request_id(1) == "b"
    assert made.get_request_header(0, "X-Said") == "so"
    assert made.get_request_header(1, "x-said") is None
    assert made.get_all_request_header(0) == {"x-said": "so"}
    made.set_response_content_type(0, "image/png")
    made.set_response_header(0, "X-More", "1")
    assert made.get_response_content_type(0) == "image/png"
    assert made.get_response_headers(0) == {"content-type": "image/png", "x-more": "1"}
    assert made.get_response_headers(1) == {}
    made.set_response_status(404, "no", 1)
    assert made.get_response_status(0) == (200, None)
    assert made.get_response_status(1) == (404, "no")
    made.set_all_response_status(500)
    assert made.get_response_status(0) == (500, "")
    made.request_processor[1].report_status(507)
    assert made.get_response_status(1) == (507, None)
    assert made.request_processor[0].get_request_properties() == {"x-said": "so"}
    assert made.request_processor[0].get_response_headers() == made.get_response_headers(0)
    made.begin(["c"], [{}])
    assert made.get_response_status(0) == (200, None)


def test_metrics_are_dropped_and_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    made = context()
    with caplog.at_level(logging.WARNING):
        made.metrics.add_counter("c", 1)
        made.metrics.add_time("t", 2, None, "ms")
    assert len(caplog.records) == 1
    assert not hasattr(made.metrics, "cache")
