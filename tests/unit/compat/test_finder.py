"""The modules made from the table behave as modules that have files."""

import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from inferstream import compat
from inferstream.plugins.mlserver.names import MODULES

NAMES = [(module, name) for module, entries in MODULES.items() for name in entries]


@pytest.fixture(autouse=True)
def _installed() -> None:
    compat.install()


def run(code: str) -> None:
    code = f"import sys, inferstream.compat as compat; compat.install()\n{code}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("module", MODULES)
def test_every_target_exists(module: str) -> None:
    found = importlib.import_module(module)
    for home, name in NAMES:
        if home == module:
            getattr(found, name)
    assert {name for home, name in NAMES if home == module and not name.startswith("_")} <= {*found.__all__}
    assert found.__spec__.name == found.__name__ == module
    assert Path(found.__file__).is_file()
    assert hasattr(found, "__path__") == any(other.startswith(f"{module}.") for other in MODULES)


def test_inferstream_objects_have_mlserver_module_names() -> None:
    for module, name in NAMES:
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value) or inspect.isfunction(value):
            home = value.__module__ or ""  # None of protobuf's messages
            assert not home.startswith("inferstream.plugins.mlserver"), name
            if home.startswith("mlserver"):
                assert inspect.getmodule(value) is sys.modules[home]
                assert pickle.loads(pickle.dumps(value)) is value


def test_pickle_is_read_before_its_module_is_imported() -> None:
    from mlserver.batching.shape import Shape

    stored = pickle.dumps(Shape([2, 3]))
    assert b"mlserver.batching.shape" in stored
    assert b"inferstream" not in stored
    run(f"import pickle; assert pickle.loads({stored!r}).to_list() == [2, 3]")


def test_source_is_available() -> None:
    from mlserver import MLModel
    from mlserver.codecs.utils import decode_request_input

    assert inspect.getsource(MLModel).startswith("class MLModel(")
    assert inspect.getsource(decode_request_input).startswith("def decode_request_input(")


def test_every_import_form_works() -> None:
    run(
        "import mlserver.codecs.utils as utils\n"
        "from mlserver.codecs import utils as same\n"
        "from mlserver.types import *\n"
        "from mlserver.cli import main\n"
        "import importlib, mlserver.cli.main, mlserver.rest\n"
        "assert utils is same is importlib.import_module('.utils', 'mlserver.codecs')\n"
        "assert InferenceRequest.__name__ == 'InferenceRequest'\n"
        "assert callable(main) and mlserver.cli.main is main\n"
        "assert importlib.reload(mlserver).MLModel is mlserver.model.MLModel\n"
    )


def test_submodules_are_attributes_without_explicit_import() -> None:
    run(
        "import mlserver\n"
        "assert mlserver.errors.InferenceError and mlserver.codecs.numpy.NumpyCodec\n"
        "assert not hasattr(mlserver, 'no_such_module')\n"
    )


def test_heavy_modules_are_imported_on_first_use() -> None:
    run(
        "assert 'numpy' not in sys.modules and 'pydantic' not in sys.modules\n"
        "import mlserver.codecs, mlserver.repository\n"
        "assert not {'pandas', 'fastapi', 'grpc', 'inferstream.server.server'} & {*sys.modules}\n"
        "assert {'MLServer'} < {*mlserver.__all__} and 'PandasCodec' in mlserver.codecs.__all__\n"
        "assert mlserver.repository.ModelRepositoryFactory and mlserver.MLServer\n"
        "assert 'inferstream.server.server' in sys.modules and 'pandas' not in sys.modules\n"
        "assert mlserver.codecs.PandasCodec and 'PandasCodec' in vars(mlserver.codecs)\n"
    )


def test_installed_mlserver_package_is_not_shadowed(tmp_path: Path) -> None:
    (tmp_path / "mlserver").mkdir()
    (tmp_path / "mlserver" / "__init__.py").touch()
    (tmp_path / "mlserver" / "errors.py").write_text("real = True")
    run(
        f"sys.path.append({str(tmp_path)!r})\n"
        "import mlserver.errors; assert mlserver.errors.real\n"
        "try: import mlserver.codecs\n"
        "except ModuleNotFoundError: pass\n"
        "else: raise AssertionError\n"
    )


def test_mlserver_is_not_importable_outside_the_server() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import inferstream, mlserver"], capture_output=True, text=True, timeout=60
    )
    assert "No module named 'mlserver'" in ran.stderr


def test_concurrent_installs_add_one_finder() -> None:
    run(
        """
import threading
from inferstream.compat import finder
both = threading.Barrier(2)
load, finder.load_tables = finder.load_tables, lambda: (load(), both.wait(20))
sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, finder.Finder)]
threads = [threading.Thread(target=compat.install) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sum(isinstance(each, finder.Finder) for each in sys.meta_path) == 1
import mlserver
"""
    )
