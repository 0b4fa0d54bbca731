"""What entry points packages bring, and which of two with one name is taken."""

import importlib
import json
import re
import sys
import tomllib
from os.path import join
from pathlib import Path

import pytest

from inferstream import Application, Settings, extensions
from inferstream.dataplane.access import Authority, build_authority
from inferstream.errors import InvalidRequest, InvalidSettings
from inferstream.extensions import COMMANDS, DIALECTS, EXTENSIONS, PREFIX, SETTINGS, STAGES, Plugin
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.grpc import request_from
from inferstream.protos.json_requests import build_request
from inferstream.settings.sections import compose
from inferstream.settings.server import CoreSettings

ROOT = Path(__file__).parents[2]


def test_each_of_ours_is_there() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folders = {
        folder.name for folder in (ROOT / "inferstream" / "plugins").iterdir() if folder.name[0] != "_"
    }
    assert declared == {
        f"{PREFIX}{EXTENSIONS}": {name: f"inferstream.plugins.{name}:extension" for name in folders}
    }
    missing = folders - extensions.extensions().keys()
    assert not missing, "install the package again: `make .venv/.installed`"
    for group in extensions.FIELDS:
        for plugin in extensions.plugins(group).values():
            assert plugin.extension in folders or not plugin.ours
            if group in (COMMANDS, DIALECTS):
                assert callable(plugin.load())


def test_sources_that_are_not_installed_have_all_of_ours(installed, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {plugin for plugin in extensions._installed() if plugin.ours}
    monkeypatch.setattr(sys, "path", [])
    extensions._installed.cache_clear()
    assert {*extensions._installed()} == before


def test_a_name_belongs_to_us_or_to_the_first_package(installed, caplog: pytest.LogCaptureFixture) -> None:
    text = "[inferstream.commands]\n# one of ours\ntop = a:b\nnew = a.b:c.d [extra]\n[other]\nx = y\n"
    installed(zweig=text, Anna=text, empty="[console_scripts]\na = b:c\n")
    commands = extensions.plugins(COMMANDS)
    assert commands["top"].ours
    assert commands["new"] == Plugin("anna", COMMANDS, "new", "a.b:c.d")
    extensions.check_names(strict=False)
    extensions.check_names(strict=False)
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
        extensions.check_names(strict=True)


def test_what_fails_is_left_out_with_the_first_line_of_its_error(
    installed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "failing.py").write_text("raise ValueError('first\\nsecond')\n")
    installed(p="[inferstream.stages]\na = failing:x\nb = os.path:join\nc = os:nothing\n")
    joined = [(plugin.name, value) for plugin, value in extensions.loaded(STAGES, False) if not plugin.ours]
    assert joined == [("b", join)]
    assert "(failing:x): ValueError: first" in caplog.text
    assert "second" not in caplog.text
    assert "AttributeError: module 'os' has no attribute 'nothing'" in caplog.text
    with pytest.raises(InvalidSettings, match='package p: entry point "a"'):
        [*extensions.loaded(STAGES, True)]


def test_an_error_of_ours_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        extensions.leave_out(Plugin("inferstream", STAGES, "a", "b:c"), ZeroDivisionError(), strict=False)
    with pytest.raises(InvalidSettings, match="why"):
        extensions.leave_out(Plugin("inferstream", STAGES, "a", "b:c"), "why", strict=False)


EXTENSION = "from inferstream.ext import Extension\nextension = Extension({})\n"


def test_an_extension_brings_its_entries_and_what_it_imports_is_loaded_later(
    installed, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text(
        EXTENSION.format("'one', commands={'c': 'absent:c'}, doors={'d': 'absent:d'}")
    )
    installed(p="[inferstream.extensions]\nany = one:extension\n")
    assert extensions.plugins(COMMANDS)["c"] == Plugin("p", COMMANDS, "c", "absent:c", "one")
    assert extensions.plugins(DIALECTS)["d"].value == "absent:d"
    assert str(extensions.plugins(DIALECTS)["d"].refusal("why")) == (
        'package p: extension "one", dialects "d" (absent:d): why'
    )


def test_a_tensor_may_refer_to_its_data_by_the_parameter_of_another_package(
    installed, tmp_path: Path
) -> None:
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


def test_tensors_of_one_request_may_refer_by_the_parameters_of_several_extensions(
    installed, tmp_path: Path
) -> None:
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
        request_from(message, references=True),
    ):
        assert request.references == ("shared_memory_region", "path")
        request.resolve("shared_memory_region")
        assert request.references == ("path",)


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
    ],
)
def test_an_extension_that_cannot_be_used_is_left_out(
    installed, tmp_path: Path, caplog: pytest.LogCaptureFixture, written: str, reason: str
) -> None:
    sys.modules.pop("two", None)
    (tmp_path / "two.py").write_text(written)
    installed(p="[inferstream.extensions]\nany = two:extension\n")
    assert all(plugin.ours for plugin, _ in extensions._checked()[0])
    extensions.check_names(strict=False)
    (record,) = caplog.records
    assert record.message.startswith(
        'package p: entry point "any" of inferstream.extensions (two:extension): '
    )
    assert reason in record.message
    with pytest.raises(InvalidSettings, match="package p"):
        extensions.check_names(strict=True)


def test_an_extension_leaves_with_one_that_it_requires(installed, tmp_path: Path) -> None:
    for name, requires in (("a", ["b"]), ("b", ["c"]), ("d", ["text"])):
        (tmp_path / f"required_{name}.py").write_text(EXTENSION.format(f"'{name}', requires={requires}"))
    installed(p="[inferstream.extensions]\n" + "".join(f"{x} = required_{x}:extension\n" for x in "abd"))
    assert extensions.extensions().keys() & {*"abcd"} == {"d"}
    assert [(plugin.name, reason) for plugin, reason in extensions._checked()[1]] == [
        ("b", 'it requires the extension "c", which is not installed'),
        ("a", 'it requires the extension "b", which is not installed'),
    ]


ASKING = """try:
    import inferstream.{} as moved
except ImportError:
    moved = None
"""


@pytest.mark.parametrize("first", ["asking", "inferstream.extensions"])
def test_an_extension_that_imports_a_path_that_is_not_there_keeps_its_entries(
    installed, tmp_path: Path, first: str
) -> None:
    sys.modules.pop("asking", None)
    (tmp_path / "asking.py").write_text(
        ASKING.format("never") + EXTENSION.format("'asking', stages={'asked': 'os'}, json_inputs=['asked']")
    )
    installed(p="[inferstream.extensions]\nany = asking:extension\n")
    importlib.import_module(first)
    assert "asking" in extensions.extensions()
    assert extensions.plugins(STAGES)["asked"].package == "p"
    assert "asked" in extensions.input_names("json_inputs")
    extensions.check_names(strict=True)


def test_an_extension_finds_what_others_have_moved(installed, tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(ASKING.format("formerly") + EXTENSION.format("'first'"))
    (tmp_path / "second.py").write_text(EXTENSION.format("'second', moved={'formerly': 'newly'}"))
    (tmp_path / "newly.py").write_text("")
    installed(
        a="[inferstream.extensions]\nany = first:extension\n",
        b="[inferstream.extensions]\nany = second:extension\n",
    )
    assert {"first", "second"} <= extensions.extensions().keys()
    assert sys.modules["first"].moved.__name__ == "newly"


def test_an_import_error_of_ours_is_the_one_that_is_raised(
    installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("import inferstream.never\n")
    installed()
    broken = Plugin("inferstream", EXTENSIONS, "broken", "broken:extension")
    monkeypatch.setattr(extensions, "_installed", lambda: (broken,))
    with pytest.raises(ModuleNotFoundError, match=r"inferstream\.never"):
        extensions.extensions()


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
        (EXTENSION.format("'two', authority='absent:x'"), "No module named 'absent'"),
        (EXTENSION.format("'two', api=2"), None),
        (EXTENSION.format("'two', requires=['three']"), None),
        (EXTENSION.format("'text'"), None),
    ],
)
def test_a_package_that_may_have_an_authority_is_not_left_out(
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
def test_an_authority_needs_its_settings(
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


def test_an_authority_with_a_name_that_is_taken_is_not_left_out(installed) -> None:
    installed(p="[inferstream.authorities]\nkeys = os:path\n")
    with pytest.raises(InvalidSettings, match="package inferstream has this name"):
        build_authority(Settings())
