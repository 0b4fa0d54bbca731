"""Bodies of JSON with tensors in any form."""

import json

import orjson
import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos.json_arrays import LONG
from inferstream.protos.json_body import JsonBody

NUMBERS = b"[%b1]" % (b"1," * 40_000)
V2 = b'{"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}]}'


def test_long_list_stays_text_until_used() -> None:
    assert len(NUMBERS) > LONG
    body = JsonBody(b'{"instances": %b, "short": [1, 2], "no": "list"}' % NUMBERS)
    instances, short = body.document["instances"], body.document["short"]
    assert not isinstance(instances, list)
    assert [JsonBody.is_list(value) for value in (instances, short, body.document["no"])] == [
        True,
        True,
        False,
    ]
    assert JsonBody.listed(instances, "instances") == [1] * 40_001
    assert JsonBody.listed(short, "short") is short
    broken = JsonBody(b'{"instances": %b}' % NUMBERS.replace(b"1,1]", b"1,,1]"))
    with pytest.raises(InvalidRequest, match='"instances" is not valid JSON'):
        JsonBody.listed(broken.document["instances"], "instances")


def test_integers_beyond_64_bits_are_exact_on_demand() -> None:
    body = JsonBody(b'{"x": 18446744073709551617}')
    assert body.document["x"] == 2.0**64
    assert body.exact() == {"x": 2**64 + 1}


@pytest.mark.parametrize("big", [2, 2**64 + 1])
def test_long_lists_inside_values_stay_lists(big: int) -> None:
    numbers, nested = [123456] * 10_000, [[1.5, 2.5]] * 2_000
    document = {
        "instances": [{"d": numbers, "e": {"f": nested}}, {"d": [big]}],
        "top": numbers,
        "short": [{"x": [1]}],
    }
    exact = JsonBody(orjson.dumps(document) if big == 2 else json.dumps(document).encode()).exact()
    exact["top"] = JsonBody.listed(exact["top"], "top")
    assert exact == document


@pytest.mark.parametrize(("body", "is_v2"), [(V2, True), (b'{"inputs": [1]}', False), (b'{"x": 1}', False)])
def test_body_may_be_a_v2_request(body: bytes, is_v2: bool) -> None:
    assert JsonBody(body).is_v2(()) is is_v2


def test_invalid_json_body_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not valid JSON"):
        JsonBody(b"{")
