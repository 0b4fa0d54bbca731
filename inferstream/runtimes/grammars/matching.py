"""`Grammars`: the forms that texts of one model are asked to have, and which tokens may come next in each text."""

import json
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from inferstream.ext.telemetry import get_logger

from ...errors import InvalidRequest, Overloaded
from ...text.fields import refused
from ...text.inputs import RESPONSE_FORMAT
from . import trial

logger = get_logger("runtimes")

PACKAGE = "llguidance"
MISSING = f'needs {PACKAGE}: pip install "inferstream[grammar]"'

LARGEST = 64 * 1024
"""Characters of a form."""

KEPT = 32
"""Grammars that are ready, or that were refused, and may be asked for again."""

THREADS = 2
WAITING = 16
"""Grammars that are being made ready, or wait for it."""

PATIENCE = 30.0
"""Seconds for a trial on a machine that has no time for it. The trial has a limit of its own, of processor time."""

LONGEST = 300
"""Characters of the library's message that a client gets."""


class FormedText:
    """One text that is written by a grammar, which the client asks for by the field `name`."""

    __slots__ = ("_matcher", "_name")

    def __init__(self, matcher: Any, name: str = RESPONSE_FORMAT) -> None:
        self._matcher = matcher
        self._name = name

    def allowed(self, size: int) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Which of the tokens, so many of them, may come next."""
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        bits = np.unpackbits(mask, count=size, bitorder="little")  # what is missing is 0
        return bits.view(np.bool_)

    def restricted(self, _: Any, logits: Any) -> Any:
        """The logits of the next token, as a processor of logits returns them."""
        return np.where(self.allowed(len(logits)), logits, -np.inf)

    def take(self, token: int) -> bool:
        """Add a token, and return whether nothing can follow.

        Raises InvalidRequest if the library cannot go on within its limits.
        """
        if not self._matcher.consume_token(token):
            logger.info("a grammar ends: %s", self._matcher.get_error())
            raise refused(self._name, f"{self._name} is too complex for this text")
        return bool(self._matcher.is_stopped())


class Grammars:
    """Makes grammars ready in threads of its own, and keeps some. One thread calls it.

    `tokens` gives the library's view of the model's tokens; what it raises is why the model takes no forms.
    """

    def __init__(self, tokens: Callable[[], Any]) -> None:
        self._refusal: str | None = None
        try:
            self._tokens = tokens()
        except ModuleNotFoundError as error:
            if error.name != PACKAGE:
                raise
            self._refusal = MISSING
        except Exception as error:  # of any kind, because it reads a tokenizer of any kind
            logger.warning("%s cannot read a tokenizer, so its model takes no %s", PACKAGE, RESPONSE_FORMAT)
            logger.info("the reason", exc_info=error)
            self._refusal = f"is not taken: {PACKAGE} cannot read the model's tokenizer"
        self._kept: OrderedDict[tuple[str, str], Future[Any]] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, "grammars")

    @property
    def usable(self) -> bool:
        """Whether there is a library that knows the model's tokens."""
        return self._refusal is None

    def begin(self, form: str, name: str = RESPONSE_FORMAT) -> "Future[Any]":
        """A future of the grammar of a form, which is JSON. `FormedText` takes copies of it.

        `name` is what the client asks for it by. Raises InvalidRequest, and Overloaded where too many others are made.
        """
        if self._refusal is not None:
            raise refused(name, f"{name} {self._refusal}")
        if len(form) > LARGEST:
            raise refused(name, f"{name} has more than {LARGEST} characters")
        key = name, form
        kept = self._kept.get(key)
        if kept is None:
            if sum(not each.done() for each in self._kept.values()) >= WAITING:
                raise Overloaded(f"{WAITING} grammars are being made ready; try again later.")
            kept = self._kept[key] = self._threads.submit(self._made, form, name)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        elif kept.done() and not isinstance(kept.exception(), InvalidRequest | None):
            del self._kept[key]  # the machine's fault, and not that of the form
            return self.begin(form, name)
        else:
            self._kept.move_to_end(key)
        return kept

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _made(self, form: str, name: str) -> Any:
        """A grammar in front of a text, with the first tokens looked up."""
        from llguidance import LLMatcher, LLParserLimits

        grammar = _tried(form, name)
        matcher = LLMatcher(self._tokens, grammar, log_level=0, limits=LLParserLimits(**trial.BOUNDS))
        matcher.compute_bitmask()
        if matcher.is_error():
            raise _wrong(name, matcher.get_error())
        return matcher


def _tried(form: str, name: str) -> str:
    """The grammar of a form that a trial in a process of its own has shown to be harmless. Raises InvalidRequest."""
    import llguidance

    packages = Path(str(llguidance.__file__)).parents[1]
    command = [sys.executable, "-I", str(trial.__file__), str(packages)]
    try:
        ran = subprocess.run(command, input=form.encode(), capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Overloaded(f"{name} could not be tried in {PATIENCE:g} s.") from None
    if ran.returncode or not ran.stdout:  # it ran past a limit, or the library has ended its process
        logger.info("a trial ended with %d: %s", ran.returncode, ran.stderr[-LONGEST:])
        raise refused(name, f"{name} is too complex: it takes more than {trial.SECONDS} s or memory")
    answer = json.loads(ran.stdout)
    if answer["error"]:
        raise _wrong(name, answer["error"])
    return str(answer["grammar"])


def _wrong(name: str, message: str) -> InvalidRequest:
    """The library's message without the lines that draw where the mistake is."""
    text = " ".join(message.replace("<non-verbose/>", "").split())
    return refused(name, f"{name}: {text[:LONGEST].rstrip('.')}")
