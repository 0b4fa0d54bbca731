"""What model code imports, from where, and what two threads that import at once see of each other."""

import asyncio
import gc
import json
import logging
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType

import pytest

from inferstream import MLModel
from inferstream.concurrency.model_thread import ModelThread
from inferstream.imports import folders
from inferstream.imports.folders import import_from, importing_alone, share_folders, shared_folders
from inferstream.imports.path import model_folders, owned_folders
from inferstream.imports.path.model_folders import loading_from
from inferstream.repository import load_model
from inferstream.settings import ModelSettings


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = {*sys.modules}
    for name in ("model", "helper", "package"):  # other tests' own
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("_server_names", "_installed"):
        monkeypatch.setattr(folders, name, set())
    monkeypatch.setattr(folders, "_shared_folders", [])
    monkeypatch.setattr(folders, "_stamps", {})
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]


def code(folder: Path, **modules: str) -> Path:
    """A folder of modules, written long enough ago for their times to tell."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in modules.items():
        write(folder / f"{name}.py", text)
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def load(folder: Path, name: str = "model") -> ModuleType:
    return import_from(folder.resolve(), name)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files written a moment ago count as old."""
    monkeypatch.setattr(folders, "CLOCK_STEP", -(10**12))


@pytest.mark.usefixtures("settled")
def test_models_share_a_package_of_the_served_folder(tmp_path) -> None:
    share_folders([tmp_path])
    write(tmp_path / "vocabulary" / "words.py", "words = object()")  # without __init__.py
    one = load(code(tmp_path / "one", model="from vocabulary.words import words"))
    two = load(code(tmp_path / "two", model="from vocabulary.words import words"))
    assert one is not two
    assert one.words is two.words
    assert shared_folders() == [str(tmp_path.resolve())]


@pytest.mark.usefixtures("settled")
def test_own_module_precedes_a_shared_one_and_is_private(tmp_path) -> None:
    share_folders([code(tmp_path, helper="whose = 'shared'")])
    own = code(tmp_path / "own", model="import helper", helper="whose = 'own'")
    other = code(tmp_path / "other", model="import helper")
    assert load(own).helper.whose == "own"
    assert load(other).helper.whose == "shared"
    assert load(own).helper.whose == "own"


def test_models_with_equally_named_modules_keep_their_own(tmp_path) -> None:
    for name in ("one", "two"):
        code(tmp_path / name, model="import helper, package.part", helper=f"whose = {name!r}")
        write(tmp_path / name / "package" / "part.py", f"whose = {name!r}")
    found = {name: load(tmp_path / name) for name in ("one", "two")}
    for name, model in found.items():
        assert model.helper.whose == name
        assert model.package.part.whose == name


@pytest.mark.usefixtures("settled")
def test_shared_code_is_reimported_after_a_change(tmp_path) -> None:
    share_folders([code(tmp_path, outer="import inner", inner="value = 1")])
    folder = code(tmp_path / "one", model="import outer")
    first = load(folder)
    assert load(folder).outer is first.outer

    (tmp_path / "inner.new").write_text("value = 'changed'")
    (tmp_path / "inner.new").replace(tmp_path / "inner.py")

    assert load(folder).outer.inner.value == "changed"
    assert first.outer.inner.value == 1


def test_shared_file_changed_during_import_is_reimported(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folders, "CLOCK_STEP", 10**12)  # every file is as new as that
    share_folders([code(tmp_path, common="value = 1")])
    folder = code(tmp_path / "one", model="import common")
    assert load(folder).common is not load(folder).common


@pytest.mark.usefixtures("settled")
def test_shared_files_shadow_neither_stdlib_nor_imported_server_modules(tmp_path) -> None:
    share_folders([code(tmp_path, colorsys="hidden = True", pytest="hidden = True")])
    sys.modules.pop("colorsys", None)
    model = load(code(tmp_path / "one", model="import colorsys, pytest"))
    assert not hasattr(model.colorsys, "hidden")
    assert model.pytest is pytest


@pytest.mark.usefixtures("settled")
def test_server_imports_are_never_reimported(tmp_path) -> None:
    sys.path.append(str(code(tmp_path, server_part="")))
    import server_part

    share_folders([tmp_path])
    write(tmp_path / "server_part.py", "changed = True")
    assert load(code(tmp_path / "one", model="import server_part")).server_part is server_part


def test_late_import_finds_model_and_shared_folders(tmp_path) -> None:
    share_folders([code(tmp_path / "shared", late_shared="")])
    folder = code(tmp_path / "one", late_own="", model="def use():\n    import late_own, late_shared")
    load(folder).use()


def in_threads(*functions: Callable[[], object]) -> list[BaseException]:
    """Run each in a thread; what they raise."""
    errors: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "two imports wait for each other"
    return errors


MEETING = """
import threading
import time
import weakref
here = threading.get_ident
started = {"left": threading.Event(), "right": threading.Event()}
checked = threading.Event()
halves = []

def meet(this, that):
    started[this].set()
    started[that].wait(WAIT)  # in vain where imports take turns

def check(module):
    if not hasattr(module, "LAST"):
        halves.append(module.__name__)
    checked.set()
"""
LEFT = """
import threading, meeting
meeting.meet("left", "right")
import PREFIXright as right
if hasattr(right, "LAST"):
    meeting.checked.wait(meeting.WAIT)
elif right.thread != meeting.here():
    meeting.check(right)
LAST = 1
"""
RIGHT = """
import meeting
thread = meeting.here()
meeting.meet("right", "left")
import PREFIXleft
LAST = 1
"""
LAZY = """
import importlib
def __getattr__(name):
    if name in ("Left", "Right"):
        return importlib.import_module(f"lazy.{name.lower()}")
    raise AttributeError(name)
"""


def circle(folder: Path, wait: float, prefix: str = "") -> ModuleType:
    """Two modules that import each other, which either thread may do alone, and that show who saw half of one."""
    at = folder / prefix.removesuffix(".")
    code(at, left=LEFT.replace("PREFIX", prefix), right=RIGHT.replace("PREFIX", prefix))
    sys.path.append(str(code(folder, meeting=f"WAIT = {wait}\n{MEETING}")))
    import meeting

    return meeting


def use(meeting: ModuleType, name: str, other: str) -> None:
    import_module(name)
    meeting.check(sys.modules[other])


def test_plain_imports_expose_partial_modules_to_concurrent_threads(tmp_path) -> None:
    """What the next tests rule out; if this one fails, Python has changed and they test nothing."""
    meeting = circle(tmp_path, wait=20)
    in_threads(lambda: use(meeting, "left", "right"), lambda: use(meeting, "right", "left"))
    assert meeting.halves


def test_circular_imports_from_two_threads_see_complete_modules(tmp_path) -> None:
    meeting = circle(tmp_path, wait=0.5)

    def alone(name: str, other: str) -> None:
        with importing_alone():
            use(meeting, name, other)

    assert in_threads(lambda: alone("left", "right"), lambda: alone("right", "left")) == []
    assert meeting.halves == []


def test_lazy_package_attributes_are_imported_completely(tmp_path) -> None:
    """As transformers does: nothing is imported before `load` asks the package for a class."""
    meeting = circle(tmp_path, 0.5, prefix="lazy.")
    write(tmp_path / "lazy" / "__init__.py", LAZY)
    import lazy

    def alone(name: str, other: str) -> None:
        with importing_alone():
            assert getattr(lazy, name).LAST
            meeting.check(sys.modules[other])

    assert in_threads(lambda: alone("Left", "lazy.right"), lambda: alone("Right", "lazy.left")) == []
    assert meeting.halves == []


def test_module_may_wait_for_its_own_importing_thread(tmp_path) -> None:
    code(tmp_path, found="")
    threaded = "import threading\ndef work():\n    import found\nt = threading.Thread(target=work)\nt.start(); t.join()"
    sys.path.append(str(code(tmp_path, threaded=threaded)))

    def use() -> None:
        with importing_alone():
            import threaded  # noqa: F401

    assert in_threads(use) == []


async def test_models_loading_concurrently_see_complete_modules(tmp_path) -> None:
    meeting = circle(tmp_path, wait=0.5)

    class Serving(MLModel):
        def predict(self, payload: object) -> str:
            return ""

    class Async(Serving):
        async def load(self) -> None:
            await asyncio.to_thread(use, meeting, "left", "right")

    class Blocking(Serving):
        def load(self) -> None:
            use(meeting, "right", "left")

    sys.modules["models_here"] = here = ModuleType("models_here")
    for model in (Async, Blocking):
        setattr(here, model.__name__, model)
    settings = [
        ModelSettings(name=name, implementation=f"models_here.{name}") for name in ("Async", "Blocking")
    ]
    loaded = await asyncio.gather(*(load_model(each, 60) for each in settings))
    assert all(one.model.ready for one in loaded)
    assert meeting.halves == []


async def test_event_loop_wait_is_bounded(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(folders, "LOOP_PATIENCE", 0.05)
    sys.path.append(str(code(tmp_path, wanted_one="import wanted_two", wanted_two="")))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with folders.importing:
            held.set()
            done.wait(20)

    holding = threading.Thread(target=hold)
    holding.start()
    held.wait(20)
    with caplog.at_level(logging.WARNING), importing_alone():
        import wanted_one  # noqa: F401
    done.set()
    holding.join()
    assert caplog.text.count("on the event loop while another import") == 1


def test_modules_with_getattr_side_effects_are_not_touched(tmp_path) -> None:
    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise AssertionError(f"asked for {name}")

    sys.modules["lazy_thing"] = Lazy("lazy_thing")
    share_folders([])
    load(code(tmp_path / "one", model=""))


def test_symlinked_model_folder_keeps_its_names(tmp_path) -> None:
    """As Kubernetes mounts what it configures: each file is a link into a hidden folder."""
    hidden = code(tmp_path / "one" / "..data", model="import helper", helper="value = 1")
    for name in ("model.py", "helper.py"):
        os.symlink(hidden / name, tmp_path / "one" / name)
    first = load(tmp_path / "one")
    assert load(tmp_path / "one").helper is not first.helper


async def test_model_thread_waits_for_its_turn_to_import(tmp_path, monkeypatch) -> None:
    """Nothing else waits for the event loop in it, so it need not give up."""
    monkeypatch.setattr(folders, "LOOP_PATIENCE", 0.01)
    sys.path.append(str(code(tmp_path, wanted_three="")))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with folders.importing:
            held.set()
            done.wait(20)

    holding = threading.Thread(target=hold)
    holding.start()
    held.wait(20)
    thread = ModelThread("model-m")
    try:
        with importing_alone():
            importing = asyncio.ensure_future(thread.call(import_module, "wanted_three"))
        assert not (await asyncio.wait([importing], timeout=0.1))[0]
        done.set()
        assert (await importing).__name__ == "wanted_three"
    finally:
        done.set()
        holding.join()
        thread.close()


def test_module_that_removes_its_folder_from_sys_path_is_imported(tmp_path) -> None:
    folder = code(tmp_path / "one", model="import os, sys; sys.path.remove(os.path.dirname(__file__))")
    share_folders([folder])
    assert load(folder).__name__ == "model"


@pytest.mark.parametrize("file", ["model.py", "parts/words.py"])
def test_change_with_same_size_and_second_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    now = time.time_ns()
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").touch()
    texts = {"parts/words.py": "WORD = 'old'", "model.py": "from parts.words import WORD\nmine = 'old'"}
    found = []
    for change in (lambda text: text, lambda text: text.replace("old", "new")):
        texts[file] = change(texts[file])
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
            os.utime(tmp_path / name, ns=(now, now))
        module = import_from(tmp_path, "model")
        found.append((module.WORD, module.mine))
    assert found == [("old", "old"), ("old", "new") if file == "model.py" else ("new", "old")]


def test_bytecode_of_older_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "settled.py"
    file.write_text("word = 1")
    before = time.time() - 60
    os.utime(file, (before, before))
    import_from(tmp_path, "settled")
    assert Path(cache_from_source(str(file))).exists()


def test_code_fixed_in_the_same_second_is_reimported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file, now = tmp_path / "failing.py", time.time_ns()
    for divisor in "01":
        file.write_text(f"word = 1 / {divisor}")
        os.utime(file, ns=(now, now))
        if divisor == "0":
            with pytest.raises(ZeroDivisionError):
                import_from(tmp_path, "failing")
    assert import_from(tmp_path, "failing").word == 1


def test_model_folder_cannot_shadow_the_server_package(tmp_path) -> None:
    code(tmp_path / "inferstream", __init__="", errors="")
    code(tmp_path, model="import inferstream.errors\nfound = inferstream.errors.InferstreamError")
    assert load(tmp_path).found.__module__ == "inferstream.errors"


def test_built_in_modules_have_no_owner(tmp_path, monkeypatch) -> None:
    code(tmp_path, model="value = 1", time="value = 2")
    load(tmp_path)
    monkeypatch.setattr(model_folders, "_find_owner", lambda name: pytest.fail(f"looked for {name}"))
    assert datetime(2026, 1, 2, tzinfo=UTC).timetuple().tm_year == 2026  # imports `time` as unpicklers import


def test_python_installation_below_a_model_folder_is_not_model_code(monkeypatch) -> None:
    monkeypatch.setattr(owned_folders, "packages", {})
    home = str(Path(logging.__file__).parents[2])
    with loading_from(home):
        assert owned_folders.find_packages(owned_folders.package_name(home), "logging") == []
    installed = [f"{home}/{name}/package/code.py" for name in ("site-packages", "python3/dist-packages")]
    for file in (logging.__file__, folders.__file__, *installed):
        assert model_folders._package_in({"__name__": "code", "__file__": file}) == ""


LATE = "import helper\n\n\ndef late():\n    from helper import whose\n    return whose, helper.whose\n"


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_each_load_imports_its_own_modules_until_released(tmp_path, shared) -> None:
    code(tmp_path, model=LATE, helper="whose = 'old'\nclass Thing: ...", json="whose = 'hidden'")
    if shared:
        share_folders([tmp_path])
    old = load(tmp_path)
    write(tmp_path / "helper.py", "whose = 'new'")
    new = load(tmp_path)
    assert old.late() == ("old", "old")
    assert new.late() == ("new", "new")
    assert type(pickle.loads(pickle.dumps(old.helper.Thing()))) is old.helper.Thing
    assert [name for name in owned_folders.replaced if old.__name__ == name] == [old.__name__]
    if shared:
        exec("import json\nfound = json.dumps", vars(old))
        assert old.found is json.dumps
    gone, other = weakref.ref(old), load(code(tmp_path / "other", model=""))
    del old
    gc.collect()
    assert gone() is None
    assert other.__name__ not in owned_folders.replaced


def test_failed_load_releases_its_module_names(tmp_path) -> None:
    old = load(code(tmp_path, model=LATE, helper="whose = 'old'\nclass Thing: ..."))
    name = old.__name__
    write(tmp_path / "helper.py", "raise OSError(model)")
    with pytest.raises(NameError):
        load(tmp_path)
    assert old.late() == ("old", "old")
    assert (old.__name__, old.__spec__.name, sys.modules[name]) == (name, name, old)
    assert old.helper.Thing.__module__ == old.helper.__name__ == f"{name.rpartition('.')[0]}.helper"


def test_models_of_one_folder_have_separate_modules(tmp_path) -> None:
    first = load(code(tmp_path, model=LATE, helper="whose = object()"))
    second = load(tmp_path)
    assert first.late() == (first.helper.whose,) * 2 != second.late()
