"""`LimitedTemplate`: a chat template whose author is not trusted, rendered in a process with limits."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import orjson

from ..errors import ModelError, Overloaded
from . import jinja
from .fields import wrong_field

logger = logging.getLogger("inferstream.text")

PATIENCE_SECONDS = 10.0
"""For a machine without time for a render, whose own limit is one of processor time."""

MOST_WAITING = 16
"""Renders of one template that wait or run."""

LARGEST_ANSWER = 8 * jinja.LARGEST_PROMPT
"""Bytes of a prompt in JSON, which escapes some characters."""

INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ")
"""Environment variables of the process; no others, because they hold keys."""

ALLOW = "trust_remote_code lifts the limit"

Fallback = Callable[[Sequence[dict[str, Any]]], str]


class LimitedTemplate:
    """Renders a template for one model, prompt by prompt. The process starts at once, and again after a limit ended it.

    With a `fallback`, that writes the prompts if Jinja cannot read the template.
    """

    def __init__(
        self, model: str, source: str, special: dict[str, str], fallback: Fallback | None = None
    ) -> None:
        if find_spec("jinja2") is None:
            raise ImportError("No module named 'jinja2'")
        self._model = model
        self._source = source
        self._special = special
        self._fallback = fallback
        self._fault: str | None = None
        self._end: socket.socket | None = None
        self._answers: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: set[Future[str]] = set()
        self._thread = ThreadPoolExecutor(1, "chat-template")
        self._thread.submit(self._start)

    def __call__(
        self, messages: Sequence[dict[str, Any]], field: str = "messages", tools: Any = None
    ) -> "Future[str]":
        """A future of the prompt. Raises Overloaded.

        The future raises InvalidRequest for messages that the template refuses, which names their `field`, and
        ModelError at a limit.
        """
        variables = {**self._special, "messages": messages, "add_generation_prompt": True, "tools": tools}
        line = orjson.dumps(variables, option=orjson.OPT_APPEND_NEWLINE)
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded(
                f"{MOST_WAITING} prompts of model {self._model} are being written; try again later."
            )
        future = self._thread.submit(self._render, messages, field, line)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def close(self) -> None:
        """End the process after the render that runs."""
        self._thread.submit(self._stop)
        self._thread.shutdown(wait=False)

    def _render(self, messages: Sequence[dict[str, Any]], field: str, line: bytes) -> str:
        self._start()
        if self._fault is not None:
            if self._fallback is not None:
                return self._fallback(messages)
            raise self._failed(f"cannot be used: {self._fault}")
        answer = self._ask(line)
        if (refusal := answer.get("refusal")) is not None:
            raise wrong_field(field, f"the chat template refuses them: {refusal}")
        if (excess := answer.get("excess")) is not None:
            raise self._failed(f"{excess}; {ALLOW}")
        return str(answer["prompt"])

    def _start(self) -> None:
        """Start the process if it does not run, and let it compile the template."""
        if self._fault is not None or (self._process is not None and self._process.poll() is None):
            return
        self._stop()
        packages = Path(str(find_spec("jinja2").origin)).parents[1]  # type: ignore[union-attr]
        self._end, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(jinja.__file__), str(packages)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in INHERITED if name in os.environ},
                start_new_session=True,
            )
        self._end.settimeout(PATIENCE_SECONDS)
        self._answers = self._end.makefile("rb")
        try:
            self._fault = self._ask(orjson.dumps(self._source, option=orjson.OPT_APPEND_NEWLINE)).get(
                "refusal"
            )
        except ModelError as error:
            self._fault = error.message
        if self._fault is not None:
            self._stop()
            logger.warning("model %s: its chat template is not used: %s", self._model, self._fault)

    def _ask(self, line: bytes) -> dict[str, str]:
        """The answer to a line. Raises ModelError if a limit ended the process, Overloaded if time did."""
        assert self._end is not None
        assert self._answers is not None
        try:
            self._end.sendall(line)
            answer = self._answers.readline(LARGEST_ANSWER)
        except TimeoutError:
            self._stop()
            raise Overloaded(
                f"A prompt of model {self._model} took longer than {PATIENCE_SECONDS:g} s."
            ) from None
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            self._stop()
            memory = jinja.MEMORY >> 20
            raise self._failed(f"takes more than {jinja.SECONDS} s of processor time or {memory} MB; {ALLOW}")
        found: dict[str, str] = orjson.loads(answer)
        return found

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._end is not None and self._answers is not None:
            self._answers.close()
            self._end.close()
        self._process = self._end = self._answers = None

    def _failed(self, what: str) -> ModelError:
        return ModelError(f"The chat template of model {self._model} {what}.", 500)
