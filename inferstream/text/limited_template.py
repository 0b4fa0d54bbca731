"""`LimitedTemplate`: a chat template whose author is not trusted, rendered in a process with limits."""

import logging
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from ..errors import ModelError, Overloaded
from . import jinja
from .chat import NONE
from .chat_prompts import ChatPrompts

logger = logging.getLogger("inferstream.text")

PATIENCE_SECONDS = 10.0
"""For a machine without time for a render, whose own limit is one of processor time."""

MOST_WAITING = 16
"""Renders of one template that wait or run."""

LARGEST_ANSWER = 8 * jinja.LARGEST_PROMPT
"""Bytes of a prompt in JSON, which escapes some characters."""

INHERITED = ("LD_LIBRARY_PATH", "TZ")
"""Environment variables of the process; no others, because they hold keys."""

ALLOW = "trust_remote_code lifts the limit"


class LimitedTemplate(ChatPrompts):
    """Renders a template for one model, prompt by prompt. A process that a limit has ended starts again.

    With a `fallback`, that writes the prompts if Jinja cannot read the template.
    """

    def __init__(
        self,
        model: str,
        source: str,
        special: dict[str, str],
        fallback: Callable[[Sequence[dict[str, Any]]], str] | None = None,
    ) -> None:
        super().__init__(source)
        from jinja2 import (
            __file__ as library,  # late: few models have a template of an author who is not trusted
        )

        self._command = [sys.executable, "-I", jinja.__file__, str(Path(library).parents[1])]
        "".join([source, *special.values()]).encode()  # raises ValueError for what no line of JSON can hold
        self._model, self._source, self._special, self._fallback = model, source, special, fallback
        self._running: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
        weakref.finalize(self, _stop, self._running)
        self._waiting: set[Future[str]] = set()
        self._thread = ThreadPoolExecutor(1, "chat-template")

    def __call__(
        self, messages: Sequence[dict[str, Any]], field: str = "messages", options: Mapping[str, Any] = NONE
    ) -> "Future[str]":
        """A future of the prompt. Raises Overloaded.

        The future raises InvalidRequest for messages that the template refuses, which names their `field`, and
        ModelError for a template that cannot be used, or needs too much.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded(
                f"{MOST_WAITING} prompts of model {self._model} are being written; try again later."
            )
        future = self._thread.submit(self.write, messages, field, options)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def _render(self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        variables = {"tools": None, **variables, **self._special, "messages": messages}
        try:
            self._start()
        except OSError as error:
            logger.error("model %s: its chat template has no process: %s", self._model, error)
            raise Overloaded(f"A prompt of model {self._model} cannot be written now; try again.") from None
        try:
            answer = self._ask(orjson.dumps({"source": self._source, "variables": variables}))
        except TimeoutError:
            _stop(self._running)
            raise Overloaded(f"A prompt of model {self._model} took {PATIENCE_SECONDS:g} s.") from None
        except OSError:
            _stop(self._running)
            memory = jinja.MEMORY >> 20
            answer = {"excess": f"takes more than {jinja.SECONDS} s of processor time or {memory} MB"}
        if (prompt := answer.get("prompt")) is not None:
            return prompt
        if (refusal := answer.get("refusal")) is not None:
            raise ValueError(refusal)
        if "fault" in answer and self._fallback is not None:
            return self._fallback(messages)
        reason = f"cannot be used: {answer['fault']}" if "fault" in answer else f"{answer['excess']}; {ALLOW}"
        logger.warning("model %s: its chat template %s", self._model, reason)
        raise ModelError(f"The chat template of model {self._model} {reason}.", 500)

    def _start(self) -> None:
        """Start the process unless it is running. Raises OSError."""
        if self._running and self._running[0][0].poll() is None:
            return
        _stop(self._running)
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        end, theirs = socket.socketpair()
        end.settimeout(PATIENCE_SECONDS)
        with theirs:
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                )
            except OSError:
                end.close()
                raise
        self._running.append((process, end))

    def _ask(self, line: bytes) -> dict[str, str]:
        """The answer of the process. Raises OSError if it has ended, and TimeoutError."""
        end = self._running[0][1]
        end.sendall(line + b"\n")
        answer = bytearray()
        while not answer.endswith(b"\n"):
            piece = end.recv(2**16)
            answer += piece
            if not piece or len(answer) > LARGEST_ANSWER:
                raise OSError
        answered: dict[str, str] = orjson.loads(answer)
        return answered


def _stop(running: list[tuple[subprocess.Popen[bytes], socket.socket]]) -> None:
    while running:
        process, end = running.pop()
        process.kill()
        process.wait()
        end.close()
