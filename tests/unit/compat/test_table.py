"""Tables of names, written in the form of import statements."""

from inferstream.compat.table import Instead, Late, parsed

TABLE = """
other: from .own import One, Two as Three
 late os import getcwd as cwd, sep
 no Gone, Lost: SHARED
other.below: no Away: write `own` instead
other.long: from .own import One,
      Two
"""


def test_a_table_has_the_names_of_each_module() -> None:
    shared = Instead("a sentence of several lines of the table")
    assert parsed(TABLE, {"SHARED": shared.sentence}, "server") == {
        "other": {
            "One": "inferstream.compat.server.own",
            "Three": "inferstream.compat.server.own:Two",
            "cwd": Late("os:getcwd"),
            "sep": Late("os"),
            "Gone": shared,
            "Lost": shared,
        },
        "other.below": {"Away": Instead("write `own` instead")},
        "other.long": dict.fromkeys(("One", "Two"), "inferstream.compat.server.own"),
    }
