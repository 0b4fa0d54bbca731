"""Requests that start processes or reach a database: no route does."""

import ast
from pathlib import Path

import pytest

from tests.cve.audited import Audited
from tests.cve.source import called, imported, nodes
from tests.cve.surfaces import everywhere

CVES = ("CVE-2026-42271", "CVE-2026-0596")

COMMANDS = (
    "$(touch {0})",
    "`touch {0}`",
    "; touch {0} ;",
    "| touch {0}",
    "\ntouch {0}\n",
    "' OR '1'='1'; DROP TABLE keys; --",
    "__import__('os').system('touch {0}')",
    '{{"command": "touch", "args": ["{0}"], "transport": "stdio"}}',
)

STARTING = {
    "processes/devices.py": "`nvidia-smi -L`, for a model whose devices are `auto`",
    "plugins/tools/image/dockerfile.py": "docker, podman or buildah, for whoever runs `server build`",
    "plugins/llm/engine/guard.py": "the command of an engine, which only an operator's settings give, and its end with the server",
    "plugins/llm/engine/process.py": "the guard of an engine's command",
    "plugins/llm/grammars/matching.py": "the trial of a form that a client asks for, of a program in the package; the form is its input",
    "plugins/sources/objects.py": "the lists and files of an object store, read by a program in the package",
    "plugins/text/limited_template.py": "a chat template without trust, rendered by a program in the package",
    "telemetry/output.py": "what makes JSON of each line that is printed, of this one file",
    "processes/spawning.py": "workers and front ends, of a program in the package",
}
SHELLS = (
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
)
EXECUTING = ("os.exec", "os.spawn", "os.posix_spawn", "os.fork")
MODULES = ("subprocess", "pty", "sqlite3", "sqlalchemy", "psycopg", "redis")


@pytest.mark.parametrize("apart", ["", "\n"])
def test_request_text_is_never_executed_as_command(watched: Audited, tmp_path: Path, apart: str) -> None:
    victim = tmp_path / "victim"
    everywhere(watched, apart.join(COMMANDS).format(victim))
    assert not victim.exists()
    assert watched.done("subprocess.", "os.", "pty.") == []


def test_process_spawning_modules_are_listed() -> None:
    starting, shells = set(), []
    for name, node in nodes("os.", "shell", *MODULES):
        if any(each.partition(".")[0] in MODULES for each in imported(node)):
            starting.add(name)
        options = [each.arg for each in node.keywords] if isinstance(node, ast.Call) else []
        if called(node) in SHELLS or called(node).startswith(EXECUTING) or "shell" in options:
            shells.append(f"{name}: {called(node)}")
    assert starting == set(STARTING)
    assert shells == []
