"""The document of keys and its errors."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidSettings
from inferstream.plugins.keys.document import (
    Document,
    merge_documents,
    parse_document,
    parse_expiry,
    serialize,
)
from inferstream.plugins.keys.principal import NO_LIMITS, KeyLimits, known_scopes
from inferstream.plugins.keys.secret import new_key
from tests.plugins.keys.documents import entry

HASH = "0" * 64
GOOD = {"id": "abc", "principal": "alice", "sha256": HASH, "scopes": ["infer"], "models": ["*"]}


def text(*keys, **more):
    return json.dumps({"version": 1, "keys": keys, **more})


def with_field(**fields):
    return {**GOOD, **fields}


def test_document_lists_keys():
    full = with_field(expires="2030-01-31T00:00:00Z", limits={"in_flight": 0, "requests_per_second": 2})
    document = parse_document(text(full), "keys.json")
    key = document.keys[0]
    assert (key.id, key.principal, key.models) == ("abc", "alice", ["*"])
    assert key.limits == KeyLimits(in_flight=0, requests_per_second=2.0)
    assert parse_expiry(key.expires) == 1896048000.0


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        ("", "line 1 column 1: not valid JSON; hint: write the file with `server keys add"),
        ("[]", "must hold a JSON object"),
        ('{"keys": []}', '"version" must be 1'),
        ('{"version": true, "keys": []}', '"version" must be 1'),
        ('{"version": 2, "keys": []}', '"version" must be 1'),
        ('{"version": 1}', 'field "keys" is required'),
        ('{"version": 1, "keys": {}}', 'field "keys" must be a list'),
        ('{"version": 1, "keys": [], "kees": 1}', 'field "kees" is unknown'),
        ('{"version": 1, "version": 1, "keys": []}', 'field "version" is there twice in one object'),
        ('{"version": 1, "keys": [NaN]}', "NaN is not JSON"),
        (text(1), "keys[0]: the entry must be a JSON object"),
        (
            text({"principal": "bob"}),
            'principal "bob": "scopes" is missing; hint: write "scopes": ["infer", "stream"]',
        ),
        (text(with_field(color=1)), 'id "abc": field "color" is unknown'),
        (text(with_field(scopes=["root"])), 'id "abc": scope "root" is unknown; there are infer, stream'),
        (text(with_field(scopes="infer")), '"scopes" must be a list'),
        (text(with_field(limits={"in_flight": -1})), '"in_flight" must be 0 or more, got -1 in limits'),
        (
            text(with_field(limits={"in_flight": True})),
            '"limits.in_flight" must be an integer',
        ),
        (text(with_field(limits={"inflight": 1})), 'field "inflight" in "limits" is unknown'),
        (text(with_field(limits={"burst": 1})), '"burst" needs "requests_per_second"'),
        (text(with_field(expires="2030-01-31T00:00:00")), '"expires" must be a time in UTC'),
        (text(with_field(expires="2030-01-31T00:00:00+01:00")), '"expires" must be a time in UTC'),
        (text(with_field(expires="soon")), 'got "soon"'),
        (text(with_field(sha256="ab")), '"sha256" must have 64 hexadecimal digits'),
        (text(with_field(id="a b")), '"id" must have 1 to 64'),
        (text(with_field(principal="")), '"principal" must have 1 to 256 printable'),
        (text(with_field(principal="a\nb")), '"principal" must have 1 to 256 printable'),
        (text(GOOD, with_field(sha256="1" * 64)), 'id "abc" is there twice'),
        (text(GOOD, with_field(id="xyz")), '"abc" and "xyz" are the same key'),
        (text(subjects=[{"subject": "a"}]), 'subject "a": "principal" is missing; hint: '),
    ],
)
def test_errors_name_source_and_key(faulty, message):
    with pytest.raises(InvalidSettings) as caught:
        parse_document(faulty, "keys.json")
    assert caught.value.message.startswith("keys.json: ")
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "field", ["id", "principal", "sha256", "scopes", "models", "expires", "limits", "other"]
)
def test_errors_contain_no_key(field):
    key = new_key("abc")
    for value in (key, [key], {key: 1}):
        values = with_field(limits={"in_flight": -1}) | {field: value}
        with pytest.raises(InvalidSettings) as caught:
            parse_document(text(values), "keys.json")
        assert key[8:] not in caught.value.message


def test_zero_is_a_limit():
    assert (
        parse_document(text(with_field(limits={"in_flight": 0})), "x").keys[0].build_principal("abc").limits
        is not None
    )
    assert parse_document(text(with_field(limits={})), "x").keys[0].build_principal("abc").limits is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(known_scopes()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "limits", "x"]), inner)
    ),
    max_leaves=12,
)


@given(
    st.binary(max_size=64)
    | VALUES.map(json.dumps)
    | st.lists(VALUES, max_size=2).map(lambda keys: text(*keys))
)
def test_any_text_is_parsed_or_refused_with_one_line(faulty):
    with suppress(InvalidSettings):
        document = parse_document(faulty, "f")
        assert isinstance(document, Document)
        return
    with pytest.raises(InvalidSettings) as caught:
        parse_document(faulty, "f")
    assert caught.value.message.isprintable()


NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=12)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True),
        st.tuples(
            NAMES,
            st.lists(st.sampled_from(known_scopes())),
            st.lists(NAMES),
            st.none() | st.datetimes().map(lambda time: f"{time.isoformat()}Z"),
            st.integers(0, 2**70) | st.none(),
        ),
        max_size=4,
    )
)
def test_written_document_reads_back_equal(rows):
    keys = [
        entry(id, name, scopes=scopes, models=models, expires=expires, in_flight=limit)
        for id, (name, scopes, models, expires, limit) in rows.items()
    ]
    again = parse_document(serialize(Document(keys=keys)), "f")
    assert again.keys == keys


def test_missing_limits_are_not_written():
    assert entry().limits == NO_LIMITS
    assert b"null" not in serialize(Document(keys=[entry(in_flight=1)])).replace(b'"expires": null', b"")


@pytest.mark.parametrize("field", ["keys", "subjects"])
def test_key_cannot_use_token_principal(field):
    key = {"id": "a", "sha256": "0" * 64} if field == "keys" else {"subject": "a"}
    entry = {**key, "principal": "jwt:alice", "scopes": [], "models": []}
    document = {"version": 1, "keys": [], field: [entry]}
    assert getattr(parse_document(json.dumps(document), "f"), field)[0].principal == "jwt:alice"
    document["jwt"] = {"issuer": "https://issuer.example", "audience": "models"}
    with pytest.raises(InvalidSettings, match='f: principal "jwt:alice"'):
        parse_document(json.dumps(document), "f")
    one = parse_document(json.dumps({"version": 1, "keys": [], "jwt": document.pop("jwt")}), "f")
    with pytest.raises(InvalidSettings, match='both: principal "jwt:alice"'):
        merge_documents(one, parse_document(json.dumps(document), "f"), "both")
