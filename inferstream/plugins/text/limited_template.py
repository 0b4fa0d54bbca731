"""`LimitedTemplate`: renders a chat template of an untrusted author in a process with resource limits."""

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

from inferstream.errors import ModelError, Overloaded

from . import jinja
from .chat import NONE
from .chat_prompts import ChatPrompts

logger = logging.getLogger("inferstream.text")

PATIENCE_SECONDS = 10.0
"""Wall-clock timeout of a render, because the limit in the process counts only CPU time."""

MAX_WAITING = 16
"""Maximum number of queued and running renders per template."""

MAX_ANSWER_SIZE = 8 * jinja.MAX_PROMPT_SIZE
"""Maximum size in bytes of a prompt in JSON, which escapes some characters."""

INHERITED = ("LD_LIBRARY_PATH", "TZ")
"""Environment variables passed to the process. Others may hold secrets."""

ALLOW = "trust_remote_code lifts the limit"


class LimitedTemplate(ChatPrompts):
    """Renders the template of one model, one prompt at a time. A process that exceeds a limit is restarted.

    If Jinja cannot compile the template, `fallback` writes the prompts.
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
            __file__ as library,  # Imported lazily: few models have an untrusted template.
        )

        self._command = [sys.executable, "-I", jinja.__file__, str(Path(library).parents[1])]
        "".join([source, *special.values()]).encode()  # raises ValueError if it cannot be encoded as JSON
        self._model, self._source, self._special, self._fallback = model, source, special, fallback
        self._running: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
        weakref.finalize(self, _stop, self._running)
        self._waiting: set[Future[str]] = set()
        self._thread = ThreadPoolExecutor(1, "chat-template")

    def __call__(
        self, messages: Sequence[dict[str, Any]], field: str = "messages", options: Mapping[str, Any] = NONE
    ) -> "Future[str]":
        """Return a future of the prompt. Raises Overloaded.

        The future raises InvalidRequest, which names `field`, if the template rejects the messages, or
        ModelError if the template is invalid or exceeds a limit.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise Overloaded(
                f"{MAX_WAITING} prompts of model {self._model} are being written; try again later."
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
            logger.error("model %s: starting the chat template process failed: %s", self._model, error)
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
        """Send a line to the process and return its reply. Raises OSError if it exited, or TimeoutError."""
        end = self._running[0][1]
        end.sendall(line + b"\n")
        answer = bytearray()
        while not answer.endswith(b"\n"):
            piece = end.recv(2**16)
            answer += piece
            if not piece or len(answer) > MAX_ANSWER_SIZE:
                raise OSError
        answered: dict[str, str] = orjson.loads(answer)
        return answered


def _stop(running: list[tuple[subprocess.Popen[bytes], socket.socket]]) -> None:
    while running:
        process, end = running.pop()
        process.kill()
        process.wait()
        end.close()
