"""The extension API: which names it has, and that each can be imported alone."""

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from inferstream import ext

MODULES = sorted(
    module.name for module in pkgutil.iter_modules(ext.__path__) if not module.name.startswith("_")
)
MOST = 180
"""Names of the whole API."""

NARROWER = {"DataPlane", "Pipeline", "Server", "Shared"}
"""Classes of the core that plug-ins see through narrow protocols only."""


@pytest.mark.parametrize("name", MODULES)
def test_each_name_can_be_imported(name: str) -> None:
    module = import_module(f"inferstream.ext.{name}")
    assert module.__doc__
    assert module.__all__ == sorted(module.__all__)
    for each in module.__all__:
        assert getattr(module, each) is not None
    with pytest.raises(AttributeError, match=f"'inferstream.ext.{name}' has no attribute 'nothing'"):
        getattr(module, "nothing")  # noqa: B009


def test_the_api_is_small() -> None:
    names = [each for name in MODULES for each in import_module(f"inferstream.ext.{name}").__all__]
    assert len(names) + len(ext.__all__) <= MOST
    assert NARROWER.isdisjoint(names)
    assert ext.API == 1


def test_a_module_imports_what_is_used_of_it_alone() -> None:
    code = (
        "import sys; from inferstream.ext import calls, http, rpc, runtimes; from inferstream.ext.settings import expand_path; "
        "print([name for name in sys.modules if name.startswith('inferstream.server')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
