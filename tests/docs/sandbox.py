"""A clean folder in which the blocks of one page run, one after another, as a reader would type them."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from .blocks import Block

ROOT = Path(__file__).parents[2]
BIN = Path(sys.prefix) / "bin"

PORTS = {"REST": "8080", "gRPC": "8081", "metrics": "8082"}
"""The ports of a server as the pages write them."""

BANNER = re.compile(r"^(REST|gRPC|metrics) +\S*?:(?://)?\S*?(\d+)(?:/\S*)?$", re.M)
BEFORE = re.compile(r"^\d{4}-\d\d-\d\d .*\n", re.M)
"""Lines of the log, which have another form in a terminal."""

TIMES = re.compile(r"\b\d\.\d s\b")
SERVES = re.compile(r"(?:\S*/)?server (?:start|demo)\b")
PORT = re.compile(r"(-port[ =])\d+")
SECONDS = 90
"""Most of a command on a busy machine."""

INSTALL = "pip install -e ."
"""The command that installs the package of a page, without the network and for this page alone."""

METADATA = "import setuptools.build_meta as b; b.prepare_metadata_for_build_wheel({!r})"

NOT_RUN = {
    r"pip install|-m venv|npm install|apt(-get)? install|go install": "it changes the environment of the tests",
    r"go mod ": "it needs the proxy of Go's modules",
    r"make (demo|test|docs|bench\w*|grpc-clients)\b": "other tests and CI run it",
    r"docker |server build\b": "it needs Docker's engine",
    r"kubectl |helm (?!template|lint)": "it needs a cluster",
    r"grpcurl ": "Debian has no package of it",
    r"git clone": "it needs the network",
}
"""Commands that no page runs, and why."""

OPTIONAL = ("helm", "node", "npm", "go", "java", "javac")
"""Programs that a machine may lack; their commands run where they are."""


PARSERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}


EXTRAS = re.compile(r"pip install .*'?\.\[([\w,-]+)\]")
"""A command that installs extras of the package, which the blocks below it use."""


class Failed(AssertionError):
    """A block did not do what its page says."""


class Missing(Exception):
    """The environment lacks a package that the rest of a page needs."""


class Sandbox:
    """Runs blocks. `stop` ends the programs that they have started."""

    def __init__(self, folder: Path, page: str) -> None:
        self._folder = folder
        self._log = folder.parent / "server.log"
        self._page = page
        self._ports: dict[str, str] = {}
        self._server: subprocess.Popen[bytes] | None = None
        self._notebook: subprocess.Popen[str] | None = None
        self._environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            **{f"INFERSTREAM_{name}_PORT": "0" for name in ("HTTP", "GRPC", "METRICS")},
        }
        (folder / ".venv").symlink_to(sys.prefix)
        if page.startswith("docs/architecture/"):  # its readers are in a clone
            (folder / "examples").symlink_to(ROOT / "examples")

    def stop(self) -> None:
        self._stop_server()
        if self._notebook is not None and self._notebook.stdin is not None:
            with self._notebook:  # closes its streams, which ends it
                pass

    def written(self) -> str:
        """What the server that runs has written."""
        return self._log.read_text(errors="replace")

    def run(self, block: Block) -> None:
        """Do with a block what its language and its comments ask for. Raises Failed."""
        if "not run" in block.said:
            return
        try:
            self._run(block)
        except Failed as error:
            raise Failed(f"{self._page}, line {block.line}: {error}") from None

    def _run(self, block: Block) -> None:
        if block.file is not None:
            if block.language == "python":
                _compile(block.text, block.file)
            at = self._folder / block.file
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(block.text)
        elif block.language in ("console", "bash"):
            for command, output in commands_of(block.text):
                shown = None if "output may differ" in block.said else output
                self._command(command, shown, "fails" in block.said)
        elif block.language == "python":
            if "serves" in block.said:
                (self._folder / "serves.py").write_text(self.real(block.text))
                self._serve("python serves.py", None)
            else:
                self._python(block.text, block.line, "cell" in block.said)
        elif block.language == "js":
            (self._folder / "block.mjs").write_text(self.real(block.text))
            self._command("node block.mjs", None)
        elif block.language in PARSERS:
            _parse(block)
        elif block.language != "text":
            raise Failed(f'a block of "{block.language}" is neither a file nor excused')

    def _command(self, command: str, output: str | None, fails: bool = False) -> None:
        if command == INSTALL:
            self._install()
            return
        if extras := EXTRAS.search(command):
            require(extras[1].split(","))
        if any(re.search(pattern, command) for pattern in NOT_RUN):
            return
        if command.split()[0] in OPTIONAL and shutil.which(command.split()[0]) is None:
            return
        if command.startswith("cd "):
            self._folder = self._folder / command.removeprefix("cd ")
        elif SERVES.match(command):
            self._serve(command, output)
        else:
            self._shell(command, output, fails)

    def _install(self) -> None:
        """Put the folder on the path, and beside it what pip writes of an editable package."""
        installed = self._folder.parent / "installed"
        installed.mkdir()
        code = METADATA.format(str(installed))
        self._shell(shlex.join([sys.executable, "-c", code]), None, False)
        self._environment["PYTHONPATH"] = f"{self._folder}:{installed}:{ROOT}"

    def _shell(self, command: str, output: str | None, fails: bool) -> None:
        ran = subprocess.run(
            ["bash", "-c", self.real(command)],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        out, err = (self._shown(each.decode(errors="replace")) for each in (ran.stdout, ran.stderr))
        written = out + err
        if bool(ran.returncode) is not fails:
            raise Failed(f"`{command}` ends with {ran.returncode}:\n{written}")
        # A terminal shows both, in an order that pipes do not keep. curl shows its progress only here.
        if output is not None and not any(matches(output, each) for each in (out, out + err, err + out)):
            raise Failed(f"`{command}` writes\n{written}\nand the page says\n{output}")

    def _serve(self, command: str, output: str | None) -> None:
        """Start a server and wait for its banner. The one before it stops, as its reader would have done."""
        self._stop_server()
        log = self._log
        started = PORT.sub(r"\g<1>0", command).removesuffix("&")
        with log.open("wb") as written:
            self._server = subprocess.Popen(
                ["bash", "-c", f"exec {started}"],
                cwd=self._folder,
                env=self._environment,
                stdout=written,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + SECONDS
        while re.search(r"^gRPC  .*:\d+\n", text := log.read_text(errors="replace"), re.M) is None:
            if self._server.poll() is not None or time.monotonic() > until:
                raise Failed(f"`{command}` does not serve:\n{log.read_text(errors='replace')}")
            time.sleep(0.02)
        self._ports = dict(BANNER.findall(text))
        banner = BEFORE.sub("", self._shown(text))
        if output is not None and not matches(TIMES.sub("0.0 s", output), TIMES.sub("0.0 s", banner)):
            raise Failed(f"`{command}` writes\n{banner}\nand the page says\n{output}")

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            _end(self._server)
            self._server = None

    def _python(self, code: str, line: int, cell: bool = False) -> None:
        if self._notebook is None:
            self._notebook = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("notebook.py"))],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._notebook.stdin is not None
        assert self._notebook.stdout is not None
        self._notebook.stdin.write(
            json.dumps({"file": self._page, "line": line, "code": self.real(code), "cell": cell}) + "\n"
        )
        self._notebook.stdin.flush()
        answer = self._notebook.stdout.readline()
        error = json.loads(answer)["error"] if answer else "the process of the page's Python has ended"
        if error:
            raise Failed(f"the Python fails:\n{error}")

    def real(self, text: str) -> str:
        """Text of a page with the ports of the server that runs."""
        for name, port in self._ports.items():
            text = re.sub(rf"(?<=:){PORTS[name]}\b", port, text)
        return text

    def _shown(self, text: str) -> str:
        """What a program has written, with the ports of the pages."""
        for name, port in self._ports.items():
            text = re.sub(rf"(?<=:){port}\b", PORTS[name], text)
        return text


def require(extras: Sequence[str]) -> None:
    """Raise Missing unless all packages of these extras are installed."""
    for each in map(Requirement, metadata.requires("inferstream") or ()):
        for extra in extras:
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                continue
            if each.marker.evaluate({"extra": extra}):
                try:
                    metadata.distribution(each.name)
                except metadata.PackageNotFoundError:
                    raise Missing(f"needs {each.name}, of the extra {extra}") from None


def commands_of(text: str) -> list[tuple[str, str | None]]:
    """The commands of a block, each with the output that the page shows. Without prompts all lines are commands."""
    lines = text.splitlines()
    prompts = any(line.startswith("$ ") for line in lines)
    found: list[tuple[str, list[str]]] = []
    whole = True
    for line in lines:
        if not whole:
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        elif line.startswith("$ ") or not prompts:
            found.append((line.removeprefix("$ "), []))
        elif found:
            found[-1][1].append(line)
            continue
        else:
            raise Failed(f"{line!r} is before the first prompt")
        whole = is_whole(found[-1][0])
    return [(command, "\n".join(output).strip() or None) for command, output in found if command.strip()]


def is_whole(command: str) -> bool:
    """Whether a shell would run this command, and not ask for its next line."""
    if command.endswith("\\"):
        return False
    checked = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
    return not re.search("unexpected EOF|end of file|here-document", checked.stderr)


def matches(expected: str, written: str) -> bool:
    """Whether text is as a page shows it. `...` stands for anything, and on a line of its own for any lines."""
    shown = "\n".join(line.rstrip() for line in expected.strip().splitlines())
    more = shown.endswith("\n...")
    pattern = ".*?".join(map(re.escape, shown.removesuffix("\n...").split("..."))) + r"(?:\n.*)?" * more
    text = "\n".join(line.rstrip() for line in written.strip().splitlines())
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _compile(code: str, file: str) -> None:
    try:
        compile(code, file, "exec")
    except SyntaxError as error:
        raise Failed(f"{file} does not compile: {error}") from None


def _parse(block: Block) -> None:
    try:
        PARSERS[block.language](block.text)
    except ValueError as error:
        raise Failed(f"it is no {block.language.upper()}: {error}") from None
    except yaml.YAMLError as error:
        raise Failed(f"it is no YAML: {error}") from None


def _end(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(5)
