"""Descriptions of the faults in invalid JSON."""

import pytest

from inferstream.errors import HINT
from inferstream.types.json_faults import describe_json_fault


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 20_000])
def test_fault_that_python_cannot_parse_either_has_the_reason_of_the_parser(value: str) -> None:
    fault = describe_json_fault(f'{{"n": {value}}}', 6, "number is infinity", HINT)
    assert fault == "line 1 column 7: not valid JSON: number is infinity"
