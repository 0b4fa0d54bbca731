"""The extension API: which names it has, and that each can be imported alone."""

import ast
import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

from inferstream import ext
from inferstream.compat.finder import MODULES as OTHER_SERVERS
from inferstream.compat.finder import load_tables
from scripts.house.boundary import Boundary

MODULES = sorted(
    module.name for module in pkgutil.iter_modules(ext.__path__) if not module.name.startswith("_")
)
MOST = 180
"""Names of the whole API."""

MOST_FOR_HOSTS = 60
"""Names for plug-ins that embed the server or imitate another one."""

MOST_WITH_ONE_USER = 45

ROOT = Path(__file__).parents[2]

UNSHOWN = {
    "AccessFormatter",
    "BackgroundWriter",
    "CORSSettings",
    "CancelScope",
    "Channel",
    "ClientLeft",
    "CredentialMask",
    "Door",
    "Faceted",
    "GenerateFormat",
    "JsonBody",
    "LastParameters",
    "Listener",
    "LogFormatter",
    "ModelInferRequestConverter",
    "ModelInferResponseConverter",
    "Peers",
    "RpcExchange",
    "STUB_MODULE",
    "StatusLine",
    "V2Client",
    "build_action_finder",
    "caller_of",
    "check_input",
    "command_line",
    "get_model_uri",
    "has_keys",
    "model_var",
    "open_image",
    "server_unreachable",
}
"""Names of extension points with one user that the package of the page has no example for."""

NARROWER = {"DataPlane", "Pipeline", "Server", "Shared"}
"""Classes of the core that plug-ins see through narrow protocols only."""


@pytest.mark.parametrize("name", MODULES)
def test_every_name_is_importable(name: str) -> None:
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
    assert len(import_module("inferstream.ext.hosting").__all__) <= MOST_FOR_HOSTS
    assert NARROWER.isdisjoint(names)
    assert ext.API == 1


def test_module_imports_only_the_used_names() -> None:
    code = (
        "import sys; from inferstream.ext import calls, http, rpc, runtimes; from inferstream.ext.settings import expand_path; "
        "print([name for name in sys.modules if name.startswith('inferstream.server')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("name", MODULES)
def test_type_checkers_see_lazily_imported_names(name: str) -> None:
    module = import_module(f"inferstream.ext.{name}")
    [block] = [
        node
        for node in ast.parse(Path(module.__file__ or "").read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    read = defaultdict(set)
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.level == 2
        read[node.module] |= {(alias.name, alias.asname) for alias in node.names}
    assert read == {
        home: {(old, new or old) for old, _, new in (each.partition("=") for each in names.split())}
        for home, names in module._NAMES.items()
    }
    assert module.__all__ == sorted(new for names in read.values() for _, new in names)


def test_every_name_has_two_users_or_is_in_the_example_package() -> None:
    load_tables()
    users = Boundary(ROOT).users
    for targets in OTHER_SERVERS.values():
        for name, target in targets.items():
            home, _, attribute = getattr(target, "target", str(target)).partition(":")
            if home.startswith("inferstream.ext."):
                users[attribute or name].add("tables")
    text = "".join(file.read_text() for file in (ROOT / "tests" / "packages" / "shout").rglob("*.py"))
    shown = {*re.findall(r"\w+", text)}
    one = {name for name, plugins in users.items() if len(plugins) == 1}
    assert len(one) <= MOST_WITH_ONE_USER
    assert one - shown == UNSHOWN
