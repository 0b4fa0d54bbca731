"""Descriptions of arguments in docstrings."""

from __future__ import annotations

from inferstream.functions.docstring import descriptions


def test_docstrings_of_sphinx_and_google() -> None:
    assert descriptions(None) == {}
    assert descriptions("Nothing: here") == {}
    sphinx = """Do.

    :param a: first
        goes on
    :param int b: second
    :returns: c: nothing
    """
    assert descriptions(sphinx) == {"a": "first goes on", "b": "second"}
    assert descriptions("Args:\n    a: x\n\n    b (int, optional): y\nMore: z") == {"a": "x", "b": "y"}
