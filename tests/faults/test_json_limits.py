"""Each limit of JSON holds by every API, for bodies of every type and for the JSON texts that they hold."""

import json
from collections.abc import Iterator

import pytest

from tests.json_doors import FUNCTIONS, TEXTS, elements, post, started, tensor
from tests.serving import Running

LIMITS = {"max_body_bytes": 60_000, "max_json_bytes": 20_000, "max_json_values": 200, "max_json_depth": 12}
GOOD = '[{"a":1}]'
OBJECT = '{"type":"object"}'
BEYOND = {
    "max_json_values": "[" + ",".join(["{}"] * 300) + "]",
    "max_json_depth": "[" * 30 + "]" * 30,
    "max_json_bytes": '[{"a":1}' + " " * 21_000 + "]",
    "max_body_bytes": '[{"a":1}' + " " * 70_000 + "]",
}


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = started(tmp_path_factory.mktemp("limits") / "functions", **LIMITS)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = started(tmp_path_factory.mktemp("limits") / "texts", text=True, **LIMITS)
    yield running
    assert running.stop() == 0, running.text()


def expect(said: str, setting: str) -> None:
    if setting == "max_body_bytes":  # the smaller limit of JSON may be the first that is exceeded
        named = ("max_body_bytes", "max_json_bytes", "message_length", "60000 bytes", "1009")
        assert any(name in said for name in named), said
    else:
        assert setting in said, said


@pytest.mark.parametrize("setting", BEYOND)
@pytest.mark.parametrize("api", FUNCTIONS)
def test_functions_have_limit(functions: Running, api: str, setting: str) -> None:
    expect(FUNCTIONS[api](functions, BEYOND[setting]), setting)


@pytest.mark.parametrize("api", FUNCTIONS)
def test_requests_within_limits_are_served(functions: Running, api: str) -> None:
    assert FUNCTIONS[api](functions, OBJECT if "later" in api else GOOD) == ""


@pytest.mark.parametrize("setting", BEYOND)
@pytest.mark.parametrize("api", TEXTS)
def test_strings_have_limit(texts: Running, api: str, setting: str) -> None:
    expect(TEXTS[api](texts, BEYOND[setting]), setting)


@pytest.mark.parametrize("api", ["guided_json", "structured_outputs", "grammar"])
def test_a_schema_within_the_limits_is_served(texts: Running, api: str) -> None:
    assert TEXTS[api](texts, OBJECT) == ""


@pytest.mark.parametrize("way", ["binary", "raw", "contents"])
def test_bytes_elements_count(functions: Running, way: str) -> None:
    assert elements(functions, way, 200) == ""
    said = elements(functions, way, 201).replace("\\", "")
    assert 'input "x": BYTES has more than 200 elements (setting max_json_values)' in said


def test_strings_of_one_request_count_together(functions: Running) -> None:
    text = "[" + ",".join(["{}"] * 20) + "]"
    body = {"inputs": [tensor("d", *[text] * 12)]}
    said = post(functions, "/v2/models/batched/infer", json.dumps(body).encode())
    assert 'input \\"d\\": ' in said
    assert "max_json_values" in said


def test_tagged_input_of_any_model_counts(texts: Running) -> None:
    for content in ("json", "pd_json", "hg_json"):
        body = {"inputs": [tensor("x", BEYOND["max_json_depth"], content_type=content)]}
        said = post(texts, "/v2/models/plain/infer", json.dumps(body).encode())
        assert "max_json_depth" in said


def test_numbers_count_if_converted_to_list(functions: Running) -> None:
    many = [1] * 5000
    for path, body in (
        (
            "/v2/models/numbers/infer",
            {"inputs": [{**tensor("x"), "datatype": "INT64", "shape": [5000], "data": many}]},
        ),
        ("/v2/models/numbers/generate", {"x": many}),
        ("/v2/models/anything/generate", {"d": many}),
        ("/v2/models/anything/infer", {"inputs": [tensor("d", json.dumps(many))]}),
    ):
        said = post(functions, path, json.dumps(body).encode())
        assert "max_json_values" in said, (path, said)


@pytest.mark.parametrize("text", ['"' * 400, "[" * 9, "\\" * 300, '{"a":' * 9, "nul", "[1,]", '"\\ud800"'])
def test_invalid_json_is_reported(functions: Running, text: str) -> None:
    said = post(functions, "/v2/models/anything/infer", json.dumps({"inputs": [tensor("d", text)]}).encode())
    assert "not valid JSON" in said or "max_json" in said


def test_form_fields_have_body_limit(functions: Running) -> None:
    for kind in ("multipart/form-data; boundary=B", "application/x-www-form-urlencoded", "text/plain"):
        for path in ("/predictions/anything", "/v1/audio/transcriptions", "/v2/models/anything/infer"):
            said = post(functions, path, b"a" * 70_000, **{"Content-Type": kind})
            assert "60000" in said or "are not accepted" in said, (kind, path, said)
