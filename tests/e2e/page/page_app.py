"""An app that the page is tried with: pictures in a stream, long texts, Markdown, defaults, examples, many models."""

import struct
import zlib
from collections.abc import AsyncIterator
from enum import Enum
from typing import Literal, NotRequired

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from inferstream import App

app = App()

MARKDOWN = """# A title

Some **bold**, *slanted* and `coded` words, a snake_case_name and a [link](https://example.org/a).

1. one
2. two
   - inner

> quoted

```python
print("**no markdown**")

x = 1
```

<img src=x onerror="document.title=1"> and [a trap](javascript:document.title=1)
"""


def png(shade: int) -> bytes:
    """A picture of one colour, wider than most fields."""
    width, height = 900, 700
    rows = (b"\0" + bytes((shade, 90, 120)) * width) * height

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@app.model
async def frames(count: int = 12) -> AsyncIterator[bytes]:
    """Pictures, each of another shade."""
    for number in range(count):
        yield png(number * 10)


@app.model
async def flood(prompt: str, count: int = 200_000) -> AsyncIterator[str]:
    for number in range(count):
        yield f"word{number % 97} "


@app.model(calls=["talk"])
async def louder(prompt: str) -> AsyncIterator[str]:
    async for text in app.models.talk(prompt):
        yield text.upper()


@app.model(calls=["louder", "talk"])
async def loudest(prompt: str) -> str:
    return "".join([text async for text in app.models.louder(prompt)])


@app.model
async def talk(prompt: str) -> AsyncIterator[str]:
    for at in range(0, len(MARKDOWN), 7):
        yield MARKDOWN[at : at + 7]


class Options(BaseModel):
    style: str = "plain"
    depth: int = Field(default=3, ge=1)
    tags: list[str] = ["a", "b"]


class Plan(BaseModel):
    goal: str
    budget: float = 2.5
    options: Options = Options()


@app.model
def plan(plan: Plan) -> dict[str, float]:
    return {"budget": plan.budget, "depth": plan.options.depth}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Where(TypedDict):
    city: str
    zone: NotRequired[int]


class Tree(BaseModel):
    """A parcel with everything in it."""

    weight: float = Field(gt=0, le=30, description="In kilograms.")
    colour: Colour = Colour.BLUE
    kind: Literal["box", "bag"] | None = None
    fragile: bool = True
    insured: bool | None = None
    limit: int | None = 5
    near: int | str = 1
    counts: dict[str, int] = {}
    where: Where | None = None
    options: Options = Options(depth=7)
    inside: list["Tree"] = []
    parent: "Tree | None" = None


@app.model
def parcel(tree: Tree, back: Options | None = None) -> str:
    """The arguments as they came.

    Examples:
        >>> parcel({"weight": 2})
        >>> parcel({"weight": 3, "where": {"city": "Bern"}}, back={"depth": 2})
    """
    given = tree.model_dump_json(exclude_unset=True)
    return f"{given} {None if back is None else back.model_dump_json(exclude_unset=True)}"


@app.model
def search(text: str, limit: int = 10, exact: bool = False, near: list[float] | None = None) -> str:
    """Looks for a text.

    Examples:
        >>> search("a, \\"quoted\\" one", limit=3)
        >>> await search(text='it\\'s', exact=True, near=[0.5, -1])
        >>> search(make_text())
    """
    return f"{text} {limit} {exact} {near}"


def numbered(number: int) -> None:
    @app.model(f"model-{number}")
    def one() -> int:
        return number


for number in range(1, 41):
    numbered(number)
