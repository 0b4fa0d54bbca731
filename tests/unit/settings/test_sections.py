"""Sections of plug-ins: their fields join the settings, and what no plug-in declares is not ignored if it matters."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import inferstream
from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.extensions import loading
from inferstream.extensions.entries import MODEL_SETTINGS, SETTINGS, Plugin
from inferstream.plugins.kafka.settings import KafkaSettings
from inferstream.settings import sections
from inferstream.settings.descriptions import describe_fields
from inferstream.settings.model import CoreModelSettings
from inferstream.settings.sections import Section, compose
from inferstream.settings.server import CoreSettings

ROOT = Path(inferstream.__file__).parents[1]

SECTION = """
from inferstream.ext.settings import Section
from pydantic import Field, field_validator

class Joined(Section):
    {field}
    '''What it says.'''
"""

EXTENSION = """
from inferstream.ext import Extension
extension = Extension("loud", {group}="{module}:{name}")
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def join(installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package `p` with a section, and makes the settings again."""

    def joined(field: str, group: str = "settings", name: str = "Joined"):
        for module in ("loud_plugin", "loud_section"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / "loud_section.py").write_text(SECTION.format(field=field))
        (tmp_path / "loud_plugin.py").write_text(
            EXTENSION.format(group=group, module="loud_section", name=name)
        )
        installed(p="[inferstream.extensions]\nloud = loud_plugin:extension\n")
        if group == "settings":
            return compose("Settings", CoreSettings, SETTINGS)
        return compose("ModelSettings", CoreModelSettings, MODEL_SETTINGS)

    return joined


def test_generated_types_and_reserved_names_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import settings_types

    assert settings_types.TYPES.read_text() == settings_types.render_types(), "run `make settings`"
    assert settings_types.NAMES.read_text() == settings_types.render_names(), "run `make settings`"


def test_section_fields_are_read_from_values_and_variables_and_described(
    join, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed = join("loud_marks: int = Field(default=1, ge=1)")
    assert composed().loud_marks == 1
    monkeypatch.setenv("MLSERVER_LOUD_MARKS", "2")
    assert composed().loud_marks == 2
    assert composed(loud_marks=3, http_port=9).loud_marks == 3
    assert composed.model_json_schema()["properties"]["loud_marks"]["description"] == "What it says."
    assert describe_fields(composed).keys() == composed.model_fields.keys()
    assert [*composed.model_fields][-1] == "loud_marks"
    assert (
        composed.model_validate_json('{"loud_marks": 4}').section(KafkaSettings).kafka_group == "inferstream"
    )
    with pytest.raises(ValueError, match="loud_marks"):
        composed(loud_marks=0)


def test_model_section_fields_are_read_from_model_variables(join, monkeypatch: pytest.MonkeyPatch) -> None:
    composed = join("loud_marks: int = 1", "model_settings")
    monkeypatch.setenv("INFERSTREAM_MODEL_LOUD_MARKS", "2")
    settings = composed(implementation="m.M")
    assert (settings.loud_marks, settings.implementation_, settings.name) == (2, "m.M", "")


def test_uninstalled_section_has_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent(Section):
        absent: int = 1

    monkeypatch.setenv("INFERSTREAM_ABSENT", "2")
    assert Settings().section(Absent).absent == 1
    settings = Settings(kafka_group="b")
    assert settings.section(KafkaSettings) is settings


@pytest.mark.parametrize(
    ("field", "group", "name", "reason"),
    [
        ("http_port: int = 1", "settings", "Joined", 'the name "http_port" belongs to the server'),
        ("HTTP_Port: int = 1", "settings", "Joined", 'the name "http_port" belongs to the server'),
        (
            "_paths = field_validator('http_port', check_fields=False)(lambda x: x)",
            "settings",
            "Joined",
            'the name "_paths" belongs to the server',
        ),
        ("section: int = 1", "settings", "Joined", 'the name "section" belongs to the server'),
        (
            "kafka_group: str = ''",
            "settings",
            "Joined",
            'the name "kafka_group" belongs to the plug-in "kafka"',
        ),
        (
            "implementation: str = ''",
            "model_settings",
            "Joined",
            'the name "implementation" belongs to the server',
        ),
        ("one: int = 1", "settings", "Field", "it is not a subclass of Section"),
        (
            "one: int = 1",
            "settings",
            "Absent",
            "AttributeError: module 'loud_section' has no attribute 'Absent'",
        ),
        ("one: Nothing = 1", "settings", "Joined", "NameError: name 'Nothing' is not defined"),
    ],
)
def test_unusable_section_is_skipped(
    join, caplog: pytest.LogCaptureFixture, field: str, group: str, name: str, reason: str
) -> None:
    composed = join(field, group, name)
    core = CoreSettings if group == "settings" else CoreModelSettings
    assert composed.model_fields.keys() >= core.model_fields.keys()
    assert not {"one", "HTTP_Port", "section"} & composed.model_fields.keys()
    loading.check_names(strict=False)
    [record] = caplog.records
    assert record.message == (f'package p: extension "loud", {group} (loud_section:{name}): {reason}')
    with pytest.raises(InvalidSettings, match="package p: "):
        loading.check_names(strict=True)


def test_unusable_builtin_section_prevents_startup(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Plugin("inferstream", SETTINGS, "x", "os:path", "x")
    monkeypatch.setattr(sections, "plugins", lambda _: {"x": ours})
    with pytest.raises(
        InvalidSettings, match=r'extension "x".* \(os:path\): it is not a subclass of Section'
    ):
        compose("Settings", CoreSettings, SETTINGS)


LOADS = """
import json, os, sys
from inferstream.errors import InvalidSettings
from inferstream.settings import ModelSettings, Settings, load_model_settings, load_settings

said = []
for folder, code, variables in json.loads(sys.argv[1]):
    os.chdir(folder)
    os.environ.update(variables)
    try:
        eval(code)
        said.append("loaded")
    except InvalidSettings as error:
        said.append(error.message)
    for name in variables:
        del os.environ[name]
print(json.dumps(said))
"""

NOBODY = "no installed plug-in declares this setting; installed plug-ins: page"

ROWS: list[tuple[str, str, dict[str, str], str]] = [
    ("none", "load_settings('.')", {}, "loaded"),
    ("files", "load_settings('.')", {}, f'settings.json: field "kafka_enabled": {NOBODY}'),
    ("none", "load_settings('.', {'kafka_group': 'a'})", {}, f'settings: field "kafka_group": {NOBODY}'),
    ("none", "Settings(kafka_enabled=False)", {}, f'field "kafka_enabled": {NOBODY}'),
    ("none", "Settings(kafka_enabled=None)", {}, "loaded"),
    (
        "none",
        "load_settings('.')",
        {"MLSERVER_KAFKA_ENABLED": "1"},
        f"environment: MLSERVER_KAFKA_ENABLED: {NOBODY}",
    ),
    ("none", "load_settings('.')", {"MLSERVER_KAFKA_ENABLED": ""}, "loaded"),
    ("dotenv", "load_settings('.')", {}, f"environment: INFERSTREAM_KAFKA_GROUP: {NOBODY}"),
    (
        "none",
        "Settings()",
        {"INFERSTREAM_KEYS_FILE": "k"},
        f"environment: INFERSTREAM_KEYS_FILE: {NOBODY}",
    ),
    ("none", "Settings()", {"inferstream_keys": "{}"}, f"environment: INFERSTREAM_KEYS: {NOBODY}"),
    ("none", "Settings(audit_log='a')", {}, f'field "audit_log": {NOBODY}'),
    (
        "files",
        "load_model_settings('model-settings.json')",
        {},
        f'model-settings.json: field "tool_format": {NOBODY}',
    ),
    (
        "none",
        "ModelSettings(implementation='m.M')",
        {"MLSERVER_MODEL_CHAT_TEMPLATE": "t"},
        f"environment: MLSERVER_MODEL_CHAT_TEMPLATE: {NOBODY}",
    ),
]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The outcomes of `ROWS` in a process in which the only plug-in of ours is `page`."""
    root = tmp_path_factory.mktemp("root")
    for folder in ("none", "files", "dotenv", "bare/inferstream-0.dist-info"):
        (root / folder).mkdir(parents=True)
    (root / "files" / "settings.json").write_text('{"kafka_enabled": true}')
    (root / "files" / "model-settings.json").write_text('{"implementation": "m.M", "tool_format": "glm"}')
    (root / "dotenv" / ".env").write_text("INFERSTREAM_KAFKA_GROUP=a\n")
    (root / "bare/inferstream-0.dist-info/entry_points.txt").write_text(
        "[inferstream.extensions]\npage = inferstream.plugins.page:extension\n"
    )
    rows = [(str(root / folder), code, variables) for folder, code, variables, _ in ROWS]
    command = [sys.executable, "-c", LOADS, json.dumps(rows)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{root / 'bare'}:{ROOT}"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True)
    found: list[str] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[f"{row[1]} {row[0]} {row[2]}" for row in ROWS])
def test_missing_builtin_plugin_setting_prevents_startup(said: list[str], row: int) -> None:
    assert said[row] == ROWS[row][-1]
