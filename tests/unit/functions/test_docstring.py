"""Descriptions of arguments in docstrings."""

from __future__ import annotations

from inferstream.functions.docstring import parse_descriptions


def test_sphinx_and_google_docstrings() -> None:
    assert parse_descriptions(None) == {}
    assert parse_descriptions("Nothing: here") == {}
    sphinx = """Do.

    :param a: first
        goes on
    :param int b: second
    :returns: c: nothing
    """
    assert parse_descriptions(sphinx) == {"a": "first goes on", "b": "second"}
    assert parse_descriptions("Args:\n    a: x\n\n    b (int, optional): y\nMore: z") == {"a": "x", "b": "y"}
