"""What entry points packages bring, and which of two with one name is taken."""

import importlib
import json
import re
import sys
import tomllib
from os.path import join
from pathlib import Path

import pytest

from inferstream import Application, Settings
from inferstream.dataplane.access import Authority, build_authority
from inferstream.errors import InvalidRequest, InvalidSettings
from inferstream.extensions import discovery, entries, entry_points, loading
from inferstream.extensions.entries import (
    COMMANDS,
    DIALECTS,
    EXTENSIONS,
    FACETS,
    PREFIX,
    SETTINGS,
    STAGES,
    Plugin,
)
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.grpc import parse_request
from inferstream.protos.json_requests import build_request
from inferstream.settings.sections import compose
from inferstream.settings.server import CoreSettings

ROOT = Path(__file__).parents[2]


def test_builtin_extensions_are_found() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folders = {
        folder.name for folder in (ROOT / "inferstream" / "plugins").iterdir() if folder.name[0] != "_"
    }
    assert declared == {
        f"{PREFIX}{EXTENSIONS}": {name: f"inferstream.plugins.{name}:extension" for name in folders}
    }
    missing = folders - discovery.extensions().keys()
    assert not missing, "install the package again: `make .venv/.installed`"
    for group in entries.FIELDS:
        for plugin in discovery.plugins(group).values():
            assert plugin.extension in folders or not plugin.ours
            if group in (COMMANDS, DIALECTS):
                assert callable(plugin.load())


def test_uninstalled_source_tree_has_all_builtin_extensions(
    installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {plugin for plugin in entry_points.find_entry_points() if plugin.ours}
    monkeypatch.setattr(sys, "path", [])
    entry_points.find_entry_points.cache_clear()
    assert {*entry_points.find_entry_points()} == before


def test_name_belongs_to_builtin_or_first_package(installed, caplog: pytest.LogCaptureFixture) -> None:
    text = "[inferstream.commands]\n# one of ours\ntop = a:b\nnew = a.b:c.d [extra]\n[other]\nx = y\n"
    installed(zweig=text, Anna=text, empty="[console_scripts]\na = b:c\n")
    commands = discovery.plugins(COMMANDS)
    assert commands["top"].ours
    assert commands["new"] == Plugin("anna", COMMANDS, "new", "a.b:c.d")
    loading.check_names(strict=False)
    loading.check_names(strict=False)
    assert sorted(record.message.partition(": ")[0] for record in caplog.records) == [
        "package anna",
        "package anna",
        "package zweig",
        "package zweig",
        "package zweig",
    ]
    assert "package anna has this name" in caplog.text
    assert caplog.text.count("name one Extension in inferstream.extensions") == 2
    with pytest.raises(InvalidSettings, match="package inferstream has this name"):
        loading.check_names(strict=True)


def test_failing_extension_is_skipped_with_first_error_line(
    installed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "failing.py").write_text("raise ValueError('first\\nsecond')\n")
    installed(p="[inferstream.facets]\na = failing:x\nb = os.path:join\nc = os:nothing\n")
    joined = [(plugin.name, value) for plugin, value in loading.load_group(FACETS, False) if not plugin.ours]
    assert joined == [("b", join)]
    assert "(failing:x): ValueError: first" in caplog.text
    assert "second" not in caplog.text
    assert "AttributeError: module 'os' has no attribute 'nothing'" in caplog.text
    with pytest.raises(InvalidSettings, match='package p: entry point "a"'):
        [*loading.load_group(FACETS, True)]


def test_builtin_extension_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        loading.leave_out(Plugin("inferstream", STAGES, "a", "b:c"), ZeroDivisionError(), strict=False)
    with pytest.raises(InvalidSettings, match="why"):
        loading.leave_out(Plugin("inferstream", STAGES, "a", "b:c"), "why", strict=False)


EXTENSION = "from inferstream.ext import Extension\nextension = Extension({})\n"
ARTEFACT = "from inferstream.ext import Artefact, Extension\nextension = Extension('two', artefacts={})\n"


def test_extension_entries_are_loaded_lazily(installed, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        EXTENSION.format("'one', commands={'c': 'absent:c'}, doors={'d': 'absent:d'}")
    )
    installed(p="[inferstream.extensions]\nany = one:extension\n")
    assert discovery.plugins(COMMANDS)["c"] == Plugin("p", COMMANDS, "c", "absent:c", "one")
    assert discovery.plugins(DIALECTS)["d"].value == "absent:d"
    assert str(discovery.plugins(DIALECTS)["d"].build_error("why")) == (
        'package p: extension "one", dialects "d" (absent:d): why'
    )


def test_tensor_may_reference_data_by_extension_parameter(installed, tmp_path: Path) -> None:
    (tmp_path / "referring.py").write_text(
        EXTENSION.format("'referring', references={'path': 'Paths are for V2.'}")
    )
    installed(p="[inferstream.extensions]\nany = referring:extension\n")
    tensor = {"name": "x", "shape": [1], "datatype": "FP32", "parameters": {"path": "a"}}
    document = {"inputs": [tensor]}
    text = json.dumps(document).encode()
    assert build_request(document, text, None, references=True)[0].references == ("path",)
    with pytest.raises(InvalidRequest, match=r"Paths are for V2\."):
        build_request(document, text, None)


def test_tensors_may_reference_data_by_several_extension_parameters(installed, tmp_path: Path) -> None:
    (tmp_path / "referring_too.py").write_text(
        EXTENSION.format("'referring', references={'path': 'Paths are for V2.'}")
    )
    installed(p="[inferstream.extensions]\nany = referring_too:extension\n")
    wanted = [("shared_memory_region", "r"), ("path", "a"), ("path", "b")]
    document = {
        "inputs": [
            {"name": f"x{i}", "shape": [1], "datatype": "FP32", "parameters": {name: value}}
            for i, (name, value) in enumerate(wanted)
        ],
        "outputs": [{"name": "y", "parameters": {"path": "c"}}],
    }
    message = ModelInferRequest(model_name="m")
    for name, value in wanted:
        message.inputs.add(name=value, shape=[1], datatype="FP32").parameters[name].string_param = value
    message.outputs.add(name="y").parameters["path"].string_param = "c"
    for request in (
        build_request(document, json.dumps(document).encode(), None, references=True)[0],
        parse_request(message, references=True),
    ):
        assert request.references == ("shared_memory_region", "path")
        request.resolve("shared_memory_region")
        assert request.references == ("path",)


def test_plugin_with_taken_name_must_be_renamed(installed, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(EXTENSION.format("'loud', facets={'text': 'absent:text'}"))
    installed(shout="[inferstream.extensions]\nany = loud:extension\n")
    with pytest.raises(InvalidSettings) as refused:
        loading.check_names(strict=True)
    assert refused.value.message == (
        'package shout: extension "loud", facets "text" (absent:text): package inferstream has this name; '
        'rename facets "text", for example to "shout_text"'
    )


@pytest.mark.parametrize("text", ["raise OSError('gone')\n", "other = 1\n"])
def test_unusable_stage_prevents_startup(installed, tmp_path: Path, text: str) -> None:
    sys.modules.pop("guarding", None)
    (tmp_path / "guarding.py").write_text(text)
    installed(p="[inferstream.stages]\na = guarding:stage\n")
    with pytest.raises(InvalidSettings, match='package p: entry point "a"'):
        [*loading.load_group(STAGES, False)]


def test_stage_next_to_missing_stage_prevents_startup(installed, tmp_path: Path) -> None:
    text = "from inferstream.ext import Extension, Position\nextension = Extension('near', stages={})\n"
    sys.modules.pop("near", None)
    (tmp_path / "near.py").write_text(text.format("{'near_a': Position('os:path', inside='validatoin')}"))
    installed(p="[inferstream.extensions]\nany = near:extension\n")
    with pytest.raises(InvalidSettings, match='next to "validatoin"'):
        [*loading.load_placed_group(STAGES, ["first"], False)]


@pytest.mark.parametrize("group", ["edges"])
def test_plugin_next_to_missing_entry_is_skipped(
    installed, tmp_path: Path, caplog: pytest.LogCaptureFixture, group: str
) -> None:
    text = "from inferstream.ext import Extension, Position\nextension = Extension('near', {}={})\n"
    places = "{'near_a': Position('os:path', inside='validatoin'), 'near_b': Position('os:path', outside='near_a')}"
    sys.modules.pop("near", None)
    (tmp_path / "near.py").write_text(text.format(group, places))
    installed(p="[inferstream.extensions]\nany = near:extension\n")
    joined = [
        plugin.name for plugin, _ in loading.load_placed_group(group, ["first"], False) if not plugin.ours
    ]
    assert joined == ["near_b"]
    ours = ", ".join(name for name, plugin in discovery.plugins(group).items() if plugin.ours)
    line = (
        f'package p: extension "near", {group} "near_a" (os:path): it is placed next to "validatoin", which does not exist; '
        f"available: first, {ours}, near_b"
    )
    assert line in caplog.messages
    with pytest.raises(InvalidSettings, match='next to "validatoin"'):
        [*loading.load_placed_group(group, ["first"], True)]


def test_unknown_setting_names_the_unusable_extension(installed, tmp_path: Path) -> None:
    installed(p="[inferstream.extensions]\ntriage = absent_plugin:extension\n")
    with pytest.raises(InvalidSettings) as refused:
        Application([], triage_max_chars=5)
    assert refused.value.message.startswith(
        'field "triage_max_chars" is unknown; installed plug-ins: agents, '
    )
    assert refused.value.message.endswith(
        '; not usable: package p: entry point "triage" of inferstream.extensions (absent_plugin:extension): '
        "ModuleNotFoundError: No module named 'absent_plugin'"
    )


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("raise OSError('gone')\n", "OSError: gone"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("other = 1\n", "AttributeError: module 'two' has no attribute 'extension'"),
        ("extension = 1\n", "it is a int, not an Extension"),
        (EXTENSION.format("'two', api=2"), "it is for version 2 of the extension API"),
        (EXTENSION.format("'two', requires=['three']"), 'it requires the extension "three"'),
        (EXTENSION.format("'text'"), "package inferstream has this name"),
        (EXTENSION.format("'two', wrong=1"), "unexpected keyword argument 'wrong'"),
        (EXTENSION.format("'two', requires='text'"), "requires: expected a list of names, got 'text'"),
        (
            EXTENSION.format("'two', settings={'a': 'b:c'}"),
            """settings: expected "module:object", got {'a': 'b:c'}""",
        ),
        (
            EXTENSION.format("'two', stages='b:c'"),
            """stages: expected {"name": "module:object"}, got 'b:c'""",
        ),
        (EXTENSION.format("'two', stages={'a': 'b'}"), """stages "a": expected "module:object", got 'b'"""),
        (EXTENSION.format("'two', codecs={'a': 1}"), 'codecs "a": expected "module:object", got 1'),
        (EXTENSION.format("'two', artefacts=['a.json']"), "artefacts: expected an Artefact, got 'a.json'"),
        (
            ARTEFACT.format("Artefact('m.M')"),
            "artefacts: expected a list of Artefact, got Artefact(implementation='m.M'",
        ),
        (
            ARTEFACT.format("[Artefact('m.M', names='a.json')]"),
            "artefacts, names: expected a list of strings, got 'a.json'",
        ),
    ],
)
def test_unusable_extension_is_skipped(
    installed, tmp_path: Path, caplog: pytest.LogCaptureFixture, written: str, reason: str
) -> None:
    sys.modules.pop("two", None)
    (tmp_path / "two.py").write_text(written)
    installed(p="[inferstream.extensions]\nany = two:extension\n")
    assert all(plugin.ours for plugin, _ in discovery.load_extensions()[0])
    loading.check_names(strict=False)
    (record,) = caplog.records
    assert record.message.startswith(
        'package p: entry point "any" of inferstream.extensions (two:extension): '
    )
    assert reason in record.message
    with pytest.raises(InvalidSettings, match="package p"):
        loading.check_names(strict=True)


def test_extension_is_skipped_with_its_requirement(installed, tmp_path: Path) -> None:
    for name, requires in (("a", ["b"]), ("b", ["c"]), ("d", ["text"])):
        (tmp_path / f"required_{name}.py").write_text(EXTENSION.format(f"'{name}', requires={requires}"))
    installed(p="[inferstream.extensions]\n" + "".join(f"{x} = required_{x}:extension\n" for x in "abd"))
    assert discovery.extensions().keys() & {*"abcd"} == {"d"}
    assert [(plugin.name, reason) for plugin, reason in discovery.load_extensions()[1]] == [
        ("b", 'it requires the extension "c", which is not installed'),
        ("a", 'it requires the extension "b", which is not installed'),
    ]


ASKING = """try:
    import inferstream.{} as moved
except ImportError:
    moved = None
"""


@pytest.mark.parametrize("first", ["asking", "inferstream.extensions"])
def test_extension_importing_a_missing_path_keeps_its_entries(installed, tmp_path: Path, first: str) -> None:
    sys.modules.pop("asking", None)
    (tmp_path / "asking.py").write_text(
        ASKING.format("never")
        + EXTENSION.format("'asking', stages={'asked': 'os:path'}, json_inputs=['asked']")
    )
    installed(p="[inferstream.extensions]\nany = asking:extension\n")
    importlib.import_module(first)
    assert "asking" in discovery.extensions()
    assert discovery.plugins(STAGES)["asked"].package == "p"
    assert "asked" in discovery.input_names("json_inputs")
    loading.check_names(strict=True)


def test_extension_finds_names_moved_by_others(installed, tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(ASKING.format("formerly") + EXTENSION.format("'first'"))
    (tmp_path / "second.py").write_text(EXTENSION.format("'second', moved={'formerly': 'newly'}"))
    (tmp_path / "newly.py").write_text("")
    installed(
        a="[inferstream.extensions]\nany = first:extension\n",
        b="[inferstream.extensions]\nany = second:extension\n",
    )
    assert {"first", "second"} <= discovery.extensions().keys()
    assert sys.modules["first"].moved.__name__ == "newly"


def test_builtin_import_error_is_raised_directly(
    installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("import inferstream.never\n")
    installed()
    broken = Plugin("inferstream", EXTENSIONS, "broken", "broken:extension")
    monkeypatch.setattr(discovery, "find_entry_points", lambda: (broken,))
    with pytest.raises(ModuleNotFoundError, match=r"inferstream\.never"):
        discovery.extensions()


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("raise OSError('gone')\n", "OSError: gone"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("other = 1\n", "has no attribute 'extension'"),
        ("extension = 1\n", "it is a int, not an Extension"),
        (EXTENSION.format("'two', wrong=1"), "unexpected keyword argument 'wrong'"),
        (EXTENSION.format("'two', api=2, authority='os:path'"), "it is for version 2 of the extension API"),
        (
            EXTENSION.format("'two', requires=['three'], authority='os:path'"),
            'it requires the extension "three"',
        ),
        (EXTENSION.format("'text', authority='os:path'"), "package inferstream has this name"),
        (EXTENSION.format("'two', authority='os:path'"), "it is not a subclass of Authority"),
        (EXTENSION.format("'two', authority='absent:x'"), "authority (absent:x): ModuleNotFoundError"),
        (EXTENSION.format("'two', authority='os:path', stages={'a': 'b'}"), 'stages "a": expected'),
        (EXTENSION.format("'two', api=2"), None),
        (EXTENSION.format("'two', requires=['three']"), None),
        (EXTENSION.format("'text'"), None),
    ],
)
def test_package_that_may_have_an_authority_is_not_skipped(
    installed, tmp_path: Path, written: str, reason: str | None
) -> None:
    sys.modules.pop("two", None)
    (tmp_path / "two.py").write_text(written)
    installed(p="[inferstream.extensions]\nany = two:extension\n")
    if reason is None:
        assert type(build_authority(Settings())) is Authority
        assert Application([])._backend.access.requires_credentials is False
        return
    with pytest.raises(InvalidSettings, match=re.escape(reason)) as refused:
        Application([], host="0.0.0.0")
    with pytest.raises(InvalidSettings, match=re.escape(reason)):
        build_authority(Settings(host="0.0.0.0"), index=1, count=2)
    if "authority=" in written:
        with pytest.raises(InvalidSettings, match=re.escape(reason)):
            build_authority(Settings())
    else:  # this machine alone reaches the server
        assert type(build_authority(Settings())) is Authority
    assert str(refused.value).startswith("package p: e")
    if "absent" not in written:
        assert str(refused.value).endswith("remove it: pip uninstall p")


GUARD = """from inferstream.ext.access import Authority
from inferstream.ext.settings import Section
class Guard(Authority): ...
class Own(Section):
    {}: bool = False
"""


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("strict", "it is not part of the settings"), ("a: int =", "SyntaxError"), ("guarded", None)],
)
def test_authority_needs_its_settings(
    installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, reason: str | None
) -> None:
    for name in ("guard", "guarding"):
        sys.modules.pop(name, None)
    (tmp_path / "guard.py").write_text(GUARD.format(setting))
    (tmp_path / "guarding.py").write_text(
        EXTENSION.format("'g', authority='guard:Guard', settings='guard:Own'")
    )
    installed(g="[inferstream.extensions]\nany = guarding:extension\n")
    settings = compose("Settings", CoreSettings, SETTINGS)()
    if reason is None:
        assert type(build_authority(settings)).__name__ == "Guard"
        return
    with pytest.raises(InvalidSettings, match=reason):
        build_authority(settings)


def test_authority_with_taken_name_is_not_skipped(installed) -> None:
    installed(p="[inferstream.authorities]\nkeys = os:path\n")
    with pytest.raises(InvalidSettings, match="package inferstream has this name"):
        build_authority(Settings())


@pytest.mark.parametrize("part", ["authority='m:x'", "stages={'a': 'm:x'}"])
def test_startup_fails_if_a_guarding_extension_is_missing(installed, tmp_path: Path, part: str) -> None:
    sys.modules.pop("two", None)
    (tmp_path / "two.py").write_text(EXTENSION.format(f"'two', api=2, {part}"))
    installed(p="[inferstream.extensions]\nany = two:extension\n")
    with pytest.raises(InvalidSettings, match="The server does not start"):
        loading.check_authorities(True)
