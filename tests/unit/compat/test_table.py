"""Tables of names, written in the form of import statements."""

from inferstream.compat.table import Instead, Late, parse_table

TABLE = """
other: from .own import One, Two as Three
 late os import getcwd as cwd, sep
 no Gone, Lost: SHARED
other.below: no Away: write `own` instead
other.long: from .own import One,
      Two
"""


def test_table_lists_the_names_of_each_module() -> None:
    shared = Instead("a sentence of several lines of the table")
    assert parse_table(TABLE, {"SHARED": shared.sentence}, "server") == {
        "other": {
            "One": "server.own",
            "Three": "server.own:Two",
            "cwd": Late("os:getcwd"),
            "sep": Late("os"),
            "Gone": shared,
            "Lost": shared,
        },
        "other.below": {"Away": Instead("write `own` instead")},
        "other.long": dict.fromkeys(("One", "Two"), "server.own"),
    }
