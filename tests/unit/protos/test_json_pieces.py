"""JSON that is parsed in pieces says what it says as a whole."""

import gc
import json
import sys
from collections.abc import Iterator
from threading import Thread

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.protos import json_pieces
from inferstream.protos.json_pieces import loads

TEXTS = st.text('ab,[]{}":\\é', max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | TEXTS
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=40,
)
PIECES = st.sampled_from([4, 7, 16, 40])
TWICE = "A key of an object is given twice."


def in_pieces(text: bytes, size: int, parser=orjson.loads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "PIECE", size)
        return loads(text, parser)


@given(DOCUMENTS, PIECES, st.booleans())
def test_chunked_document_is_the_same_document(document, size: int, spaces: bool) -> None:
    text = json.dumps(document, indent=1).encode() if spaces else orjson.dumps(document)
    assert orjson.dumps(in_pieces(text, size)) == orjson.dumps(document)  # the order of keys too


def outcome(read, text: bytes):
    """The document or the error."""
    try:
        return read(text)
    except orjson.JSONDecodeError as error:
        return str(error)
    except InvalidRequest as error:
        return error.message


@given(DOCUMENTS, PIECES, st.data())
def test_invalid_json_has_the_same_error(document, size: int, data) -> None:
    text = json.dumps(document)
    place = data.draw(st.integers(0, len(text)))
    text = (text[:place] + data.draw(st.sampled_from('[]{},":\\ 1')) + text[place:]).encode()
    read = outcome(lambda text: in_pieces(text, size), text)
    assert read == outcome(orjson.loads, text) or (read == TWICE and has_a_key_twice(text))


def has_a_key_twice(text: bytes) -> bool:
    objects: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: objects.append(len(dict(pairs)) < len(pairs)))
    return any(objects)


@pytest.mark.parametrize("size", range(4, 40))
@pytest.mark.parametrize(
    "text",
    [
        b'{"a":{"b":1},"c":{"d":2},"a":{"e":3,"f":4,"g":5}}',
        b'{"a":[1,2],"c":[3,4],"a":[5,6,7,8,9,10,11,12]}',
        b'{"a":1,"c":2,"a":{"e":3,"f":4,"g":5,"h":6,"i":7}}',
    ],
)
def test_members_stay_in_their_container(text: bytes, size: int) -> None:
    assert outcome(lambda text: in_pieces(text, size), text) in (orjson.loads(text), TWICE)


@pytest.mark.parametrize("text", [b'{"a":[%b]}', b'[{"b":{%b,"k":[]}},1]', b'{"a":{"b":[[[%b]]]},"c":2}'])
def test_parser_gets_at_most_two_chunks(text: bytes) -> None:
    members = b",".join(b'"k%d":[]' % number if b"{%b" in text else b'"\\"k"' for number in range(3000))
    sizes: list[int] = []

    def parser(piece: bytes):
        sizes.append(len(piece))
        return orjson.loads(piece)

    assert in_pieces(text % members, 1000, parser) == orjson.loads(text % members)
    assert len(sizes) > 10
    assert max(sizes) < 2000 + 200  # two hundred stand for what is in other pieces


def test_long_string_is_one_chunk() -> None:
    document = ["a" * 100, "b,", "\\" * 101, {"c": '"' * 99}]
    for size in range(4, 64):
        assert in_pieces(orjson.dumps(document), size) == document


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns all the time."""
    gc.enable()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.enable()


@pytest.mark.usefixtures("many_switches")
def test_gc_is_enabled_after_threaded_parsing() -> None:
    for _ in range(250):
        threads = [Thread(target=lambda: [loads(b"[1]") for _ in range(300)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert gc.isenabled()
