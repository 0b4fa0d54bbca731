"""The stub of an app: what it says, and that Python takes it without the app's code."""

import subprocess
import sys
from pathlib import Path

import pytest

import inferstream
from inferstream.plugins.tools.stub.run import run
from inferstream.plugins.tools.stub.source import generate_stub

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("stub") / "stub.py"
    assert run(str(ROOT / "tests" / "client_app.py"), file) == 0
    return file


def test_stub_runs_without_app_code(stub: Path) -> None:
    code = (
        "import sys, inspect; from stub import *; app = AsyncApp('grpc://127.0.0.1:1'); "
        "print(inspect.signature(app.add), 'client_app' in sys.modules, App.add.__doc__.splitlines()[0])"
    )
    package = str(Path(inferstream.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=stub.parent,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": package},
    )
    assert ran.stdout == "(a: 'int', b: 'int' = 1) -> 'int' False Add \"two\" numbers.\n", ran.stderr


def test_classes_are_redeclared(stub: Path) -> None:
    source = stub.read_text()
    for part in (
        'class Color(enum.Enum):\n    """A color of a light."""\n\n    RED = "red"\n    BLUE = "blue"\n',
        "@dataclasses.dataclass\nclass Point:\n    x: int\n    y: int = 0\n",
        "class User(BaseModel):\n    name: str\n    tags: list[str] = []\n",
        "class Move(TypedDict):\n    by: NotRequired[int]\n",
        "class Parts(NamedTuple):\n    head: str\n    rest: list[str]\n",
        'by: float = float("inf")',
        "at: datetime.datetime | None = None",
        "x: npt.NDArray[np.float32]",
        '@remote("greet-all")\n    async def greet_all(',
        "def tokens(self, prompt: str) -> AsyncIterator[str]:",
        "def count(self, to: int) -> Iterator[int]:",
        "async def nothing(self) -> None:",
    ):
        assert part in source, part
    assert source == generate_stub(__import__("tests.client_app").client_app.app, "client_app:app")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (".", "is a folder of models"),
        ("none.py", "there is no file none.py"),
        ("tests:app", "module tests has no app"),
    ],
)
def test_invalid_app_is_one_line(
    target: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(target, None) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert error.count("\n") == error.count("hint: ") + 1
