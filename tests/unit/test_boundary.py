"""The boundary between the core and its plug-ins: its ceilings, and what counts as a crossing."""

from pathlib import Path

import pytest

from inferstream.extensions import FIELDS, SINGLE, extensions, plugins
from scripts.house.__main__ import differences
from scripts.house.boundary import Boundary

ROOT = Path(__file__).parents[2]

CORE = '''
"""inferstream.kafka is prose."""
from .kafka.door import KafkaDoor
NAME = "inferstream.kafka.door:KafkaDoor"
'''
DOOR = """
import inferstream as package
from importlib import import_module
from . import session
from ..errors import Refused, Code
from ..ext.calls import Call, Private
from ..core import NAME
from ..ray import deployment
package.core.NAME
import_module(NAME)
logger = "inferstream.core"
"""
FILES = {
    "__init__.py": "",
    "core.py": CORE,
    "errors.py": "__all__ = ['Refused']\nclass Code: ...",
    "ext/__init__.py": "",
    "ext/calls.py": "class Call: ...",
    "kafka/__init__.py": "",
    "kafka/door.py": DOOR,
    "kafka/session.py": "",
    "ray/__init__.py": "",
    "ray/deployment.py": "from ..kafka import door",
    "settings/server.py": "class Settings(Base):\n    model_config = 1\n    http_port: int = 1\n    _own: int",
    "cli/templates/x/model.py": "from inferstream.core import NAME",
}


@pytest.fixture
def boundary(tmp_path: Path) -> Boundary:
    for name, text in FILES.items():
        file = tmp_path / "inferstream" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    points = (
        '[project.entry-points."inferstream.extensions"]\nkafka = "inferstream.plugins.kafka:extension"\n'
    )
    old = '[project.entry-points."inferstream.dialects"]\nkafka = "inferstream.kafka.door:KafkaDoor"\n'
    (tmp_path / "pyproject.toml").write_text(points + old)
    return Boundary(tmp_path)


def test_nothing_more_crosses_the_boundary() -> None:
    assert [*differences(Boundary(ROOT))] == []


WITHOUT_EXTENSION = {"ray": {"kubernetes"}}
"""Plug-ins that bring the server nothing, because programs import them, and the plug-ins that each needs."""


def test_plug_ins_require_those_that_they_import() -> None:
    stated = {name: {*extension.requires} for name, extension in extensions(ours=True).items()}
    assert stated | WITHOUT_EXTENSION == Boundary(ROOT).needs


def test_extensions_name_modules_of_theirs_or_of_those_that_they_require() -> None:
    modules, known = Boundary(ROOT).modules, extensions(ours=True)
    for group in (*FIELDS, *SINGLE):
        for plugin in filter(lambda plugin: plugin.ours, plugins(group).values()):
            owner = modules[plugin.value.partition(":")[0]].plugin
            assert owner in (plugin.extension, *known[plugin.extension].requires), plugin


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("agents", {"page"}),
        ("frameworks", set()),
        ("llm", {"frameworks", "text"}),
        ("record", {"cloudevents"}),
        ("text", set()),
        ("tools", {"traffic"}),
        ("traffic", set()),
    ],
)
def test_a_plug_in_runs_with_few_others(name: str, others: set[str]) -> None:
    assert Boundary(ROOT).reached(name) == others


def test_a_private_import_is_an_import_an_attribute_or_a_text(boundary: Boundary) -> None:
    names = [f"{crossing.place} {crossing.name}" for crossing in boundary.private]
    assert names == [
        "kafka/door.py:5 inferstream.errors:Code",
        "kafka/door.py:6 inferstream.ext.calls:Private",
        "kafka/door.py:7 inferstream.core:NAME",
        "kafka/door.py:11 inferstream.core",
        "kafka/door.py:9 inferstream.core",
        "kafka/door.py:9 inferstream.core",
    ]


def test_the_core_imports_and_names_plug_ins(boundary: Boundary) -> None:
    assert [crossing.place for crossing in boundary.leaks] == ["core.py:3"]
    assert [crossing.name for crossing in boundary.strings] == ["inferstream.kafka.door"]
    assert [crossing.of for crossing in boundary.mentions] == [
        "kafka"
    ] * 4  # the import has two, the text has two


def test_plug_ins_that_need_each_other_are_a_circle(boundary: Boundary) -> None:
    assert boundary.circles == ["kafka", "ray"]
    assert [crossing.place for crossing in boundary.computed] == ["kafka/door.py:10"]
    assert boundary.users == {"Call": {"kafka"}}


def test_other_figures_of_the_boundary(boundary: Boundary) -> None:
    assert [crossing.of for crossing in boundary.entry_points] == ["inferstream.dialects"]
    assert boundary.settings == 1
    assert len(boundary.plugins) == 5
    assert "inferstream.cli.templates.x.model" not in boundary.modules


def test_a_figure_below_its_ceiling_asks_to_lower_it(boundary: Boundary) -> None:
    assert any(line.startswith("mentions: 4; lower its ceiling") for line in differences(boundary))
