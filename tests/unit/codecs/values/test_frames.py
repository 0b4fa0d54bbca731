"""Frames of pandas."""

import pytest

from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError

from .samples import through_binary


def test_frames_round_trip() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "é"]})
    value = value_for(pd.DataFrame)
    assert value.decode_input(through_binary(value.encode_input("x", frame))).equals(frame)
    rows = value.input_from_flat("x", [{"a": 1, "b": "x"}, {"a": 2, "b": "é"}])
    assert value.decode_input(rows).equals(frame)
    for wrong in ("text", [[1], 3], {"a": [1], "b": [1, 2]}):
        with pytest.raises((TypeError, ValueError, CodecError)):
            value.decode_input(value.input_from_flat("x", wrong))
