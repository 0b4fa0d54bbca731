"""Models whose folders have modules of the same names: each gets its own, however it refers to them."""

import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..serving import Running, write_model

MODEL = """
from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import typing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import common
import joblib
import pydantic
import utils
from inferstream import MLModel, decode_args
from lib.sub import WHO as SUB
from space.inner import WHO as SPACE
from utils import f

HERE = Path(__file__).parent
WHO = "{who}"


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
    if (line.startswith('    "') and "lambda" in line) or ": local_" in line or ": process" in line
]


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
        "utils.py": f"{own}\n\nclass Trained:\n    who = WHO\n",
        "late.py": own,
        "at_load.py": own,
        "colorsys.py": own,
        "iniconfig.py": own,
        "lib/__init__.py": "from . import sub\nfrom .sub import WHO\n",
        "lib/sub.py": "from .base import WHO, who\nfrom utils import f\nassert f() == WHO\n\n\nclass Plain:\n    who = WHO\n",
        "lib/base.py": own,
        "space/inner.py": own,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for module in ("utils", "lib.sub", "model", "__main__"):
        (folder / f"{module}.pkl").write_bytes(pickle_of(module))
    (folder / "trained.pkl").write_bytes(pickle_of("__main__", "Trained"))


@pytest.fixture(scope="module", params=["0", "1"], ids=["in the server", "in workers"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("modules") / "models"
    for who in ("a", "b"):
        write_folder(root, who, who)
    for version in ("1", "2"):
        write_folder(root, f"m/{version}", version, name="m", parameters={"version": version})
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "common.py").write_text(
        "import itertools\n\nTOKEN = next(itertools.count()), id(object)\nRUNS = []\n"
    )
    running = Running(root, "--workers", request.param, PYTHONPATH=f"{Path.cwd()}:{elsewhere}")
    yield running
    running.stop()


def call(server: Running, model: str, what: str) -> object:
    body = {"inputs": [{"name": "what", "datatype": "BYTES", "shape": [1], "data": [what]}]}
    answer = server.infer(model, body)
    return answer.json()["outputs"][0]["data"][0] if answer.status_code == 200 else answer.text


PATHS = {"a": "a", "b": "b", "1": "m/versions/1", "2": "m/versions/2"}


@pytest.mark.parametrize("what", ["in load", *ROWS])
def test_each_model_gets_its_own_modules(server: Running, what: str) -> None:
    assert {who: call(server, path, what) for who, path in PATHS.items()} == {who: who for who in PATHS}


def test_a_module_of_the_path_is_one_for_all_models(server: Running) -> None:
    assert len({call(server, path, "shared") for path in PATHS.values()}) == 1
