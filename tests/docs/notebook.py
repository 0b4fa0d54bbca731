"""Runs the Python blocks of a page in one namespace, as a reader would paste them; a block may await.

Each line of the input is JSON, `{"file", "line", "code", "cell"}`; each line of the output `{"error": TEXT or null}`.
A cell runs where an event loop runs, as in Jupyter. A function `test_*` that a block defines is called.
"""

import ast
import asyncio
import inspect
import json
import linecache
import sys
import traceback
from types import CodeType
from typing import Any

namespace: dict[str, Any] = {"__name__": "page"}


def run(runner: asyncio.Runner, file: str, line: int, code: str, cell: bool) -> None:
    source = "\n" * line + code
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    known = dict(namespace)
    compiled = compile(source, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    awaited(runner, in_loop(compiled) if cell else eval(compiled, namespace))
    for name, value in list(namespace.items()):
        if name.startswith("test_") and value is not known.get(name):
            awaited(runner, value())


async def in_loop(compiled: CodeType) -> None:
    result = eval(compiled, namespace)
    if inspect.iscoroutine(result):
        await result


def awaited(runner: asyncio.Runner, result: Any) -> None:
    """Await what code that awaits has returned. Code that does not runs outside of the event loop."""
    if inspect.iscoroutine(result):
        runner.run(result)


def main() -> None:
    sys.path.insert(0, "")
    output = sys.stdout
    sys.stdout = sys.stderr
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            cell, error = json.loads(line), None
            try:
                run(runner, **cell)
            except BaseException as raised:
                error = _told(raised, cell["file"])
            print(json.dumps({"error": error}), file=output, flush=True)


def _told(error: BaseException, file: str) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)])


if __name__ == "__main__":
    main()
