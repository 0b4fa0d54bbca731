"""Models whose folders have modules of the same names: each gets its own, however it refers to them."""

import pickle
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..frontends import front_ends, two
from ..serving import Running, write_model

MODEL = """
from __future__ import annotations

import asyncio
import copyreg
import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import inspect
import io
import logging.config
import multiprocessing
import os
import pickle
import pkgutil
import runpy
import subprocess
import sys
import threading
import typing
import unittest.mock
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import common
import joblib
import lib
import pydantic
import utils
from inferstream import MLModel, decode_args
from lib.sub import WHO as SUB
from space.inner import WHO as SPACE
from utils import f

HERE = Path(__file__).parent
WHO = "{who}"
sys.path.insert(0, os.path.join(HERE, "src"))
sys.path.append(f"{{HERE}}/named")
sys.path.insert(0, f"{{HERE}}/archive.zip")

import core
import packed


def work(_=None):
    return WHO


def work_late(_=None):
    from utils import WHO as who

    return who


@dataclass
class Inner:
    number: int


@dataclass
class Outer:
    inner: Inner
    who: str = WHO


class Node(pydantic.BaseModel):
    leaf: Leaf | None = None


class Leaf(pydantic.BaseModel):
    who: typing.Literal["{who}"]


class Plain:
    who = WHO


class Reduced:
    def __reduce__(self):
        return Outer, (Inner(1), WHO)


class Registered:
    pass


copyreg.pickle(Registered, lambda value: (utils.Plain, ()))


def by_path():
    spec = importlib.util.spec_from_file_location("by_path", HERE / "by_path.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WHO


def configured():
    handler = {{"()": "utils.Handler"}}
    logging.config.dictConfig({{"version": 1, "disable_existing_loggers": False, "handlers": {{WHO: handler}},
                               "loggers": {{WHO: {{"handlers": [WHO]}}}}}})
    return logging.getLogger(WHO).handlers[0].who


def patched():
    with unittest.mock.patch("utils.WHO", f"patched {{WHO}}"):
        return utils.WHO.removeprefix("patched ")


def off_the_path():
    before = [*sys.path]
    sys.path[:] = [entry for entry in before if not entry.endswith("src")]
    try:
        import core_later

        return core_later.WHO
    finally:
        sys.path[:] = before


def path_late(_=None):
    from core_late import WHO as who

    return who


def read(name):
    return (HERE / name).read_bytes()


def pool(method, function):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as executor:
        return executor.submit(function, 1).result()


def in_thread(function, *arguments):
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(function, *arguments).result()


def local_import():
    import lib.sub

    return lib.sub.who()


def process():
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    child = multiprocessing.get_context("spawn").Process(target=put, args=(queue,))
    child.start()
    try:
        return queue.get()
    finally:
        child.join()


def put(queue):
    queue.put(work_late())


class Nested(pickle.Unpickler):
    def find_class(self, module, name):
        return super().find_class(module, name)


WAYS = {{
    "at the top": lambda: utils.WHO,
    "a name of a module": lambda: f(),
    "a submodule": lambda: SUB,
    "a namespace": lambda: SPACE,
    "import inside": lambda: work_late(),
    "import of a submodule inside": local_import,
    "import_module": lambda: importlib.import_module("utils").WHO,
    "import_module of a submodule": lambda: importlib.import_module("lib.sub").who(),
    "import_module, relative": lambda: importlib.import_module(".sub", "lib").who(),
    "__import__": lambda: __import__("utils").WHO,
    "__import__ of names": lambda: __import__("utils", fromlist=["WHO"]).WHO,
    "exec": lambda: exec_("from utils import WHO"),
    "a module only imported inside": lambda: importlib.import_module("late").WHO,
    "reload": lambda: importlib.reload(importlib.import_module("late")).WHO,
    "sys.modules": lambda: (pickle.loads(read("utils.pkl")), sys.modules["utils"].WHO)[1],
    "the name of a module of Python": lambda: __import__("colorsys").WHO,
    "the name of an installed package": lambda: importlib.import_module("iniconfig").WHO,
    "pickle of a module": lambda: pickle.loads(read("utils.pkl")).who,
    "pickle of a submodule": lambda: pickle.loads(read("lib.sub.pkl")).who,
    "pickle of the model's module": lambda: pickle.loads(read("model.pkl")).who,
    "pickle of __main__": lambda: pickle.loads(read("__main__.pkl")).who,
    "pickle.load": lambda: pickle.load(io.BytesIO(read("utils.pkl"))).who,
    "pickle in Python": lambda: pickle._Unpickler(io.BytesIO(read("utils.pkl"))).load().who,
    "a subclass of Unpickler": lambda: Nested(io.BytesIO(read("utils.pkl"))).load().who,
    "joblib": lambda: joblib.load(HERE / "utils.pkl").who,
    "joblib of a submodule": lambda: joblib.load(HERE / "lib.sub.pkl").who,
    "pickle in a thread": lambda: in_thread(lambda: pickle.loads(read("utils.pkl")).who),
    "pickled at call time": lambda: pickle.loads(pickle.dumps(Outer(Inner(1)))).who,
    "pickled at call time by joblib": lambda: joblib_twice(),
    "a copy of the same class": lambda: WHO if type(pickle.loads(pickle.dumps(Outer(Inner(1))))) is Outer else "other",
    "unpickled class is the imported one": lambda: WHO if type(pickle.loads(read("utils.pkl"))) is utils.Plain else "other",
    "__reduce__": lambda: pickle.loads(pickle.dumps(Reduced())).who,
    "copyreg": lambda: pickle.loads(pickle.dumps(Registered())).who,
    "a partial": lambda: pickle.loads(pickle.dumps(functools.partial(work_late)))(),
    "a function that a pickle calls": lambda: pickle.loads(b"cutils\\nf\\n(tR."),
    "resources by name": lambda: importlib.resources.files("lib").joinpath("data.txt").read_text(),
    "resources of a module": lambda: importlib.resources.files(lib).joinpath("data.txt").read_text(),
    "pkgutil": lambda: pkgutil.get_data(lib.__name__, "data.txt").decode(),
    "data by name": lambda: pkgutil.get_data("lib", "data.txt").decode(),
    "a version in the folder": lambda: importlib.metadata.version("vendored").rpartition("+")[2],
    "a version of all": lambda: WHO if importlib.metadata.version("joblib") == joblib.__version__ else "other",
    "find_spec": lambda: Path(importlib.util.find_spec("utils").origin).parent.name,
    "find_spec of what is nowhere": lambda: WHO if importlib.util.find_spec("nowhere") is None else "other",
    "pkgutil of a name": lambda: pkgutil.resolve_name("lib.sub:WHO"),
    "modules of a package": lambda: WHO if [m.name for m in pkgutil.iter_modules(lib.__path__)] == ["base", "sub"] else "x",
    "run by its path": lambda: runpy.run_path(str(HERE / "by_path.py"))["WHO"],
    "imported by its path": by_path,
    "logging configuration": configured,
    "mock": patched,
    "__import__ by a library": lambda: common.import_("utils").WHO,
    "__import__ of a submodule by a library": lambda: common.import_("lib.sub").sub.WHO,
    "on the path": lambda: core.WHO,
    "on the path, inside": lambda: path_late(),
    "on the path, a package": lambda: importlib.import_module("deep.leaf").WHO,
    "on the path, of the folder's name": lambda: importlib.import_module("named").WHO,
    "on the path, the folder's own": lambda: core.own(),
    "on the path, a pickle": lambda: pickle.loads(b"ccore\\nPlain\\n)\\x81.").who,
    "on the path, pickled": lambda: pickle.loads(pickle.dumps(core.Plain())).who,
    "on the path, by a library": lambda: common.load("core_late").WHO,
    "on the path, off again": off_the_path,
    "on the path, fork": lambda: pool("fork", core.late),
    "on the path, spawn": lambda: pool("spawn", core.late),
    "on the path, spawned": lambda: pool("spawn", path_late),
    "on the path, loky": lambda: joblib.Parallel(2)(joblib.delayed(core.late)(i) for i in range(2))[0],
    "on the path, in a thread": lambda: in_thread(path_late),
    "in an archive": lambda: packed.WHO,
    "in an archive, inside": lambda: importlib.import_module("packed_late").WHO,
    "in an archive, a package": lambda: importlib.import_module("packs.leaf").WHO,
    "in an archive, pickled": lambda: pickle.loads(pickle.dumps(packed.Plain())).who,
    "in an archive, data by name": lambda: pkgutil.get_data("packs", "data.txt").decode(),
    "in an archive, data": lambda: pkgutil.get_data(importlib.import_module("packs").__name__, "data.txt").decode(),
    "in an archive, resources": lambda: importlib.resources.files("packs").joinpath("data.txt").read_text(),
    "in an archive, a version": lambda: importlib.metadata.version("packs").rpartition("+")[2],
    "in an archive, in a thread": lambda: in_thread(lambda: importlib.metadata.version("packs")).rpartition("+")[2],
    "in an archive, entry points": lambda: [e.value for e in importlib.metadata.entry_points(group="packs")][0],
    "in an archive, spawn": lambda: pool("spawn", packed.late),
    "threads": lambda: in_thread(work_late),
    "fork": lambda: pool("fork", work_late),
    "spawn": lambda: pool("spawn", work_late),
    "forkserver": lambda: pool("forkserver", work_late),
    "spawned process": process,
    "loky": lambda: joblib.Parallel(2)(joblib.delayed(work_late)(i) for i in range(2))[0],
    "type hints": lambda: WHO if typing.get_type_hints(Outer)["inner"] is Inner else "other",
    "fields of pydantic": lambda: Node.model_validate({{"leaf": {{"who": WHO}}}}).leaf.who,
    "dataclasses": lambda: dataclasses.replace(Outer(Inner(1))).who,
    "source": lambda: WHO if 'who = "{who}"' in inspect.getsource(utils.Plain) else "other",
    "module of a class": lambda: Path(inspect.getmodule(Plain).__file__).parent.name,
    "a module of all": lambda: WHO if common.TOKEN is importlib.import_module("common").TOKEN else "other",
}}


def exec_(code):
    names = {{}}
    exec(code, globals(), names)
    return names["WHO"]


def joblib_twice():
    buffer = io.BytesIO()
    joblib.dump(Outer(Inner(1)), buffer)
    buffer.seek(0)
    return joblib.load(buffer).who


class M(MLModel):
    def load(self):
        from at_load import WHO as first

        self.loaded = [first, importlib.import_module("at_load").WHO, pickle.loads(read("utils.pkl")).who]
        self.loaded.append(joblib.load(HERE / "utils.pkl").who)
        __import__("__main__").Trained = utils.Trained
        self.loaded.append(pickle.loads(read("trained.pkl")).who)

    @decode_args
    def predict(self, what: str) -> str:
        if what == "in load":
            return WHO if {{*self.loaded}} == {{WHO}} else str(self.loaded)
        if what == "shared":
            return str(common.TOKEN)
        return WAYS[what]()
"""
ROWS = [
    line.split('"')[1]
    for line in MODEL.splitlines()
    if line.startswith('    "') and (line.endswith(",") and ": " in line)
]


LATE = "def late(_=None):\n    from core_late import WHO\n\n    return WHO\n"


def pickle_of(module: str, name: str = "Plain") -> bytes:
    """What a training script writes, in which the class is in this module."""
    made = types.ModuleType(module)
    kind = type(name, (), {"__module__": module, "__qualname__": name})
    setattr(made, name, kind)
    saved = {each: sys.modules.get(each) for each in (module, module.partition(".")[0])}
    sys.modules[module] = made
    sys.modules.setdefault(module.partition(".")[0], made)
    try:
        return pickle.dumps(kind())
    finally:
        for each, before in saved.items():
            if before is None:
                del sys.modules[each]
            else:
                sys.modules[each] = before


def write_folder(root: Path, at: str, who: str, **settings: object) -> None:
    folder = write_model(root, at, "model.M", MODEL.format(who=who), **settings)
    own = f'WHO = "{who}"\n\n\ndef f():\n    return WHO\n\n\ndef who():\n    return WHO\n\n\nclass Plain:\n    who = "{who}"\n'
    files = {
        "utils.py": f"import logging\n\n{own}\n\nclass Trained:\n    who = WHO\n\n\nclass Handler(logging.Handler):\n    who = WHO\n",
        "by_path.py": "from utils import WHO\n",
        "src/core.py": f"{own}\n\ndef own():\n    from utils import WHO\n\n    return WHO\n\n\n{LATE}",
        "src/core_late.py": own,
        "src/core_later.py": own,
        "src/deep/__init__.py": "",
        "src/deep/leaf.py": "from core import WHO\nfrom . import twig\n",
        "src/deep/twig.py": "",
        "named/named.py": own,
        "lib/data.txt": who,
        "late.py": own,
        "at_load.py": own,
        "colorsys.py": own,
        "iniconfig.py": own,
        "lib/__init__.py": "from . import sub\nfrom .sub import WHO\n",
        "lib/sub.py": "from .base import WHO, who\nfrom utils import f\nassert f() == WHO\n\n\nclass Plain:\n    who = WHO\n",
        "lib/base.py": own,
        "space/inner.py": own,
        f"vendored-1+{who}.dist-info/METADATA": f"Name: vendored\nVersion: 1+{who}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("packed.py", f"{own}\n\n{LATE.replace('core_late', 'packed_late')}")
        archive.writestr("packed_late.py", own)
        archive.writestr("packs/__init__.py", "")
        archive.writestr("packs/data.txt", who)
        archive.writestr(f"packs-1+{who}.dist-info/METADATA", f"Name: packs\nVersion: 1+{who}\n")
        archive.writestr(f"packs-1+{who}.dist-info/entry_points.txt", f"[packs]\nx = {who}\n")
        archive.writestr("packs/leaf.py", "from packed import WHO\n")
    for module in ("utils", "lib.sub", "model", "__main__"):
        (folder / f"{module}.pkl").write_bytes(pickle_of(module))
    (folder / "trained.pkl").write_bytes(pickle_of("__main__", "Trained"))


@pytest.fixture(
    scope="module", params=["0", "1", "front ends"], ids=["in the server", "in workers", "behind front ends"]
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("modules") / "models"
    for who in ("a", "b"):
        write_folder(root, who, who)
    for version in ("1", "2"):
        write_folder(root, f"m/{version}", version, name="m", parameters={"version": version})
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "common.py").write_text(
        "import importlib\nimport itertools\n\nTOKEN = next(itertools.count()), id(object)\nRUNS = []\n\n\n"
        "def load(name):\n    return importlib.import_module(name)\n\n\n"
        "def import_(name):\n    return __import__(name)\n"
    )
    if request.param == "front ends":
        two(root)
    flags = () if request.param == "front ends" else ("--workers", request.param)
    running = Running(root, *flags, within=100, PYTHONPATH=f"{Path.cwd()}:{elsewhere}")
    yield running
    running.stop()


def call(server: Running, model: str, what: str) -> object:
    body = {"inputs": [{"name": "what", "datatype": "BYTES", "shape": [1], "data": [what]}]}
    answer = server.infer(model, body)
    return answer.json()["outputs"][0]["data"][0] if answer.status_code == 200 else answer.text


PATHS = {"a": "a", "b": "b", "1": "m/versions/1", "2": "m/versions/2"}


@pytest.mark.parametrize("what", ["in load", *ROWS])
def test_each_model_has_its_own_modules(server: Running, what: str) -> None:
    assert {who: call(server, path, what) for who, path in PATHS.items()} == {who: who for who in PATHS}


def test_module_on_path_is_shared_by_models(server: Running) -> None:
    if front_ends(server):
        pytest.skip("each front end imports it")
    assert len({call(server, path, "shared") for path in PATHS.values()}) == 1
