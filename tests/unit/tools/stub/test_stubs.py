"""The stub of an app: what it says, and that Python takes it without the app's code."""

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import inferstream
from inferstream import App, Depends, InferenceResponse, RequestContext
from inferstream.errors import ConnectionFailed, InvalidSettings
from inferstream.tools.stub.run import run
from inferstream.tools.stub.source import stub_source

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("stub") / "stub.py"
    assert run(str(ROOT / "tests" / "client_app.py"), file) == 0
    return file


def test_a_stub_runs_without_the_code_of_the_app(stub: Path) -> None:
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


def test_classes_are_declared_again(stub: Path) -> None:
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
    assert source == stub_source(__import__("tests.client_app").client_app.app, "client_app:app")


class Node(BaseModel):
    children: list["Node"] = []
    data: UUID | None = None


@dataclass
class Odd:
    made: list[int] = field(default_factory=lambda: [1])
    many: dict[str, "Odd"] = field(default_factory=dict)


class Partial(TypedDict):
    day: NotRequired[date]


class Pair(NamedTuple):
    left: Any
    right: int = 3


def executed(app: App) -> tuple[str, dict[str, Any]]:
    source = stub_source(app, "here:app")
    module = sys.modules["stub_of_test"] = type(sys)("stub_of_test")
    exec(source, module.__dict__)
    return source, module.__dict__


async def test_unusual_types_and_names() -> None:
    app = App("my-shop")

    @app.model("class")
    def keyword(node: Node, odd: Odd = Odd()) -> Pair:  # noqa: B008
        raise NotImplementedError

    @app.model("2nd/model", version="1")
    def second(
        context: RequestContext,
        day: date = date(2024, 5, 6),
        way: Literal["a'b", 'c"d'] = "a'b",
        x: Annotated[Partial, Field(description="a day")] | None = None,
        y: npt.NDArray[np.bool_] | None = None,
    ) -> InferenceResponse:
        raise NotImplementedError

    @app.model("client")
    def named_as_an_attribute(a: int | None, b: int, extra: int = Depends(lambda: 1)) -> dict[str, Node]:
        """Ends with a "quote\""""
        raise NotImplementedError

    @app.model
    def bare(table: dict, rows: list | None = None) -> tuple[dict, list]:  # type: ignore[type-arg]
        raise NotImplementedError

    @app.model(version="1")
    def versioned(a: int) -> int:
        raise NotImplementedError

    @app.model("versioned", version="2")
    async def newer(a: AsyncIterator[int], b: tuple[int, ...] = (1,)) -> AsyncIterator[int]:
        yield 1

    source, names = executed(app)
    stub = names["AsyncMyShop"]("http://127.0.0.1:1", retries=0)
    node, odd = names["Node"](children=[names["Node"]()]), names["Odd"](made=[2])
    for call in (
        stub.class_(node),
        stub.class_(node, odd),
        stub._2nd_model(x={"day": date(2024, 5, 6)}),
        stub.client_(b=1),
    ):
        with pytest.raises(ConnectionFailed):
            await call
    with pytest.raises(ValueError, match=r'argument "odd": field "made\.0"'):
        await stub.class_(node, {"made": ["x"]})
    assert {"class_", "_2nd_model", "client_", "versioned_1", "versioned_2"} <= {*dir(stub)}
    assert "async def client_(self, *, a: int | None = None, b: int) -> dict[str, Node]:" in source
    assert '@remote("2nd/model", "1")' in source
    assert "table: dict[str, Any]," in source
    assert "rows: list[Any] | None = None," in source
    assert ") -> tuple[dict[str, Any], list[Any]]:" in source
    assert "odd: Odd = DEFAULT" in source
    assert "def versioned_2(self, a: AsyncIterable[int], b: tuple[int, ...] = (1,))" in source
    assert "day: datetime.date = datetime.date(2024, 5, 6)" in source
    assert "context" not in source


def test_two_methods_of_one_name_are_refused() -> None:
    app = App()

    for version in ("1", "2"):

        @app.model("add", version=version)
        def add() -> None: ...

    @app.model
    def add_1() -> None: ...

    with pytest.raises(InvalidSettings, match=r'add_1: a stub would have two methods of the name "add_1"'):
        stub_source(app, "here:app")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (".", "is a folder of models"),
        ("none.py", "there is no file none.py"),
        ("tests:app", "module tests has no app"),
    ],
)
def test_what_is_no_app_is_said_in_one_line(
    target: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(target, None) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert error.count("\n") == 1
