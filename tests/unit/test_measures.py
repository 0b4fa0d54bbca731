"""Measures of names and imports, on sources written for them, and where `make check` finds the tests of a file."""

from pathlib import Path

import pytest

from scripts.check import unit_tests
from scripts.house import patterns
from scripts.house.circles import circles
from scripts.house.mirrors import modules
from scripts.house.source import Source


def test_code_lines_exclude_blanks_comments_and_docstrings() -> None:
    text = (
        '"""A module."""\n\n# why\nx = """a\n\n# text\n"""\n\n\ndef f():\n    """Do.\n\n    More.\n    """\n'
    )
    assert (Source("a.py", text).lines, Source("a.py", text).code_lines) == (14, 5)


def test_duplicate_class_names_are_found() -> None:
    text = "class A:\n    class B: ...\nclass MLModel: ...\n"
    others = [
        Source("b.py", text),
        Source("cli/templates/x/model.py", "class C: ..."),
        Source("c.py", "class C: ..."),
    ]
    assert patterns.doubles([Source("a.py", text), *others]) == {"A": ["a.py", "b.py"]}


def test_cycles_include_type_imports_and_exclude_function_imports() -> None:
    typing = "if TYPE_CHECKING:\n    from ..a import A"
    lazy = "def f():\n    from .a import A"
    a, rest = Source("a.py", "from . import c\nfrom .b.d import D"), Source("b/__init__.py", "")
    assert circles([a, rest, Source("b/d.py", typing), Source("c.py", lazy)]) == [["a", "b.d"]]


def test_modules_have_mirrored_test_files() -> None:
    names = ["rows.py", "cli/__init__.py", "__main__.py", "cli/demo_models/x.py"]
    assert modules([Source(name, "") for name in names]) == ["rows.py"]
    assert unit_tests(Path("inferstream/rows.py")) == [Path("tests/unit/test_rows.py")]
    assert unit_tests(Path("inferstream/plugins/kafka/door.py")) == [Path("tests/plugins/kafka/test_door.py")]


def test_file_without_mirrored_tests_uses_tests_that_name_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name, text in (("test_a.py", "from inferstream.rows import x"), ("test_b.py", "import inferstream")):
        (tmp_path / "tests" / "unit" / name).write_text(text)
    assert unit_tests(Path("inferstream/rows.py")) == [Path("tests/unit/test_a.py")]
    assert unit_tests(Path("inferstream/model.py")) == []
