"""The text of keys."""

import re

from inferstream.keys.secret import ID, digest_of, id_of, new_id, new_key


def test_a_key_has_its_form():
    key = new_key("abc")
    assert re.fullmatch(r"ifs_abc_[A-Za-z0-9_-]{43}", key)
    assert new_key("abc") != key


def test_the_id_is_found_whatever_it_contains():
    assert id_of(new_key("a_b.c-d")) == "a_b.c-d"


def test_the_id_of_other_texts_is_some_text():
    assert id_of("") == ""
    assert id_of("ifs_") == ""
    assert id_of("short") == ""


def test_ids_are_new_and_valid():
    first, second = new_id(), new_id()
    assert first != second
    assert ID.fullmatch(first)


def test_any_text_has_a_digest():
    assert len(digest_of("\udc80é")) == 32
