"""The text of keys."""

import re

from inferstream.plugins.keys.secret import ID, hash_key, new_id, new_key, parse_id


def test_key_format():
    key = new_key("abc")
    assert re.fullmatch(r"ifs_abc_[A-Za-z0-9_-]{43}", key)
    assert new_key("abc") != key


def test_id_is_found_with_any_characters():
    assert parse_id(new_key("a_b.c-d")) == "a_b.c-d"


def test_id_of_malformed_key_is_a_string():
    assert parse_id("") == ""
    assert parse_id("ifs_") == ""
    assert parse_id("short") == ""


def test_ids_are_unique_and_valid():
    first, second = new_id(), new_id()
    assert first != second
    assert ID.fullmatch(first)


def test_any_text_has_a_digest():
    assert len(hash_key("\udc80é")) == 32
