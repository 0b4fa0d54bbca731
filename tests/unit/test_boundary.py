"""The boundary between the core and its plug-ins: its ceilings, and what counts as a crossing."""

from pathlib import Path

import pytest

from inferstream.extensions.discovery import extensions, plugins
from inferstream.extensions.entries import FIELDS, SINGLE
from scripts.house.__main__ import differences
from scripts.house.boundary import Boundary, Crossing
from scripts.house.plugin_tests import PluginTests

HERE = Boundary(Path(__file__).parents[2])

CORE = '''
"""inferstream.plugins.kafka is prose."""
from .plugins.kafka.door import KafkaDoor
NAME = "inferstream.plugins.kafka.door:KafkaDoor"
'''
DOOR = """
import inferstream as package
from importlib import import_module
from . import session
from ...errors import Refused, Code
from ...ext.calls import Call, Private
from ...core import NAME
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
    "plugins/kafka/__init__.py": "",
    "plugins/kafka/door.py": DOOR,
    "plugins/kafka/session.py": "",
    "plugins/page/__init__.py": "",
    "plugins/page/page.py": "",
    "plugins/ray/__init__.py": "",
    "plugins/ray/deployment.py": "from ..kafka import door",
    "settings/server.py": "class Settings(Base):\n    model_config = 1\n    http_port: int = 1\n    _own: int",
    "cli/templates/x/model.py": "from inferstream.core import NAME",
}

TESTS = {
    "conftest.py": "from tests.support import shared",
    "support.py": "from inferstream.core import NAME",
    "other.py": "from inferstream.core import NAME",
    "unit/test_core.py": "from inferstream.core import NAME",
    "plugins/kafka/test_door.py": """
from inferstream.errors import Code, Refused
from inferstream.plugins.kafka import door, session
from inferstream.plugins.page import page
from tests.plugins.ray import test_deployment
from tests.unit.test_core import NAME
monkeypatch.setattr("inferstream.core.NAME", 1)
run("python", "-m", "tests.unit.test_core")
monkeypatch.setattr("inferstream.plugins.page.page.NAME", 1)
""",
    "plugins/ray/test_deployment.py": "from inferstream.plugins.kafka import door",
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
    old = (
        '[project.entry-points."inferstream.dialects"]\nkafka = "inferstream.plugins.kafka.door:KafkaDoor"\n'
    )
    (tmp_path / "pyproject.toml").write_text(points + old)
    return Boundary(tmp_path)


def test_no_new_imports_cross_the_boundary() -> None:
    assert [*differences(HERE)] == []


def test_plugin_tests_import_only_what_their_plugin_may() -> None:
    assert PluginTests(HERE).crossings == []


def test_plugins_require_the_plugins_they_import() -> None:
    stated = {name: {*extension.requires} for name, extension in extensions(ours=True).items()}
    assert stated == HERE.needs


def test_extensions_name_their_own_or_required_modules() -> None:
    modules, known = HERE.modules, extensions(ours=True)
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
def test_plugin_loads_few_others(name: str, others: set[str]) -> None:
    assert HERE.reached(name) == others


def test_private_import_may_be_import_attribute_or_string(boundary: Boundary) -> None:
    names = [f"{crossing.place} {crossing.name}" for crossing in boundary.private]
    assert names == [
        "plugins/kafka/door.py:5 inferstream.errors:Code",
        "plugins/kafka/door.py:6 inferstream.ext.calls:Private",
        "plugins/kafka/door.py:7 inferstream.core:NAME",
        "plugins/kafka/door.py:11 inferstream.core",
        "plugins/kafka/door.py:9 inferstream.core",
        "plugins/kafka/door.py:9 inferstream.core",
    ]


def test_core_imports_and_mentions_of_plugins_are_found(boundary: Boundary) -> None:
    assert [crossing.place for crossing in boundary.leaks] == ["core.py:3"]
    assert [crossing.name for crossing in boundary.strings] == ["inferstream.plugins.kafka.door"]
    assert [crossing.of for crossing in boundary.mentions] == [
        "kafka"
    ] * 4  # the import has two, the text has two


def test_mutually_dependent_plugins_are_a_cycle(boundary: Boundary) -> None:
    assert boundary.circles == ["kafka", "ray"]
    assert [crossing.place for crossing in boundary.computed] == ["plugins/kafka/door.py:10"]
    assert boundary.users == {"Call": {"kafka"}}


def test_other_boundary_counts(boundary: Boundary) -> None:
    assert [crossing.of for crossing in boundary.entry_points] == ["inferstream.dialects"]
    assert boundary.settings == 1
    assert len(boundary.plugins) == 7
    assert "inferstream.cli.templates.x.model" not in boundary.modules


def test_count_below_its_ceiling_asks_to_lower_it(boundary: Boundary) -> None:
    assert any(line.startswith("mentions: 4; lower its ceiling") for line in differences(boundary))


def test_plugin_test_imports_are_checked_like_plugin_imports(boundary: Boundary) -> None:
    for name, text in TESTS.items():
        file = boundary.root / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    shared = Crossing("kafka", "tests/support.py:1", "inferstream.core:NAME")
    door = "tests/plugins/kafka/test_door.py"
    assert PluginTests(boundary).crossings == [
        Crossing("kafka", f"{door}:2", "inferstream.errors:Code"),
        Crossing("kafka", f"{door}:7", "inferstream.core"),
        Crossing("kafka", f"{door}:4", "inferstream.plugins.page.page"),
        Crossing("kafka", f"{door}:9", "inferstream.plugins.page.page"),
        Crossing("kafka", f"{door}:6", "tests.unit.test_core"),
        Crossing("kafka", f"{door}:8", "tests.unit.test_core"),
        shared,
        shared._replace(of="ray"),
    ]
