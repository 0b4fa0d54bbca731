"""`Grammars`: compiles the grammars for a model, and restricts the next tokens of each stream."""

import json
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from inferstream.errors import HINT, InvalidRequest, Overloaded, install_command
from inferstream.ext.telemetry import get_logger
from inferstream.plugins.text.fields import field_error
from inferstream.plugins.text.inputs import RESPONSE_FORMAT

from . import trial

logger = get_logger("runtimes")

PACKAGE = "llguidance"

MAX_FORMAT_LENGTH = 64 * 1024
"""Maximum characters of a format."""

KEPT = 32
"""Maximum number of cached grammars, including rejected ones."""

THREADS = 2
WAITING = 16
"""Maximum number of grammars that are queued or being compiled."""

PATIENCE = 30.0
"""Wall-clock timeout of a trial in seconds. The limit in its process counts only CPU time."""

MAX_REASON_LENGTH = 300
"""Maximum characters of the library's message in an error."""


class FormedText:
    """Text constrained by a grammar. `name` is the request field of the grammar."""

    __slots__ = ("_matcher", "_name")

    def __init__(self, matcher: Any, name: str = RESPONSE_FORMAT) -> None:
        self._matcher = matcher
        self._name = name

    def allowed_mask(self, size: int) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Return a boolean mask of length `size` that is True for each token that may come next."""
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        bits = np.unpackbits(mask, count=size, bitorder="little")  # missing bits are 0
        return bits.view(np.bool_)

    def mask_logits(self, _: Any, logits: Any) -> Any:
        """Return the masked logits of the next token, as a logits processor."""
        return np.where(self.allowed_mask(len(logits)), logits, -np.inf)

    def add_token(self, token: int) -> bool:
        """Add a token. Returns whether the text is complete.

        Raises InvalidRequest if the grammar exceeds the limits of the library.
        """
        if not self._matcher.consume_token(token):
            logger.info("grammar stopped: %s", self._matcher.get_error())
            raise field_error(self._name, f"{self._name} is too complex for this text")
        return bool(self._matcher.is_stopped())


class Grammars:
    """Compiles grammars in background threads and caches them. Must be called from one thread.

    `tokens` returns the library's tokenizer. If it raises, the model rejects formats for that reason.
    """

    def __init__(self, tokens: Callable[[], Any]) -> None:
        self._refusal: str | None = None
        try:
            self._tokens = tokens()
        except ModuleNotFoundError as error:
            if error.name != PACKAGE:
                raise
            self._refusal = f"needs {PACKAGE}, which is not installed{HINT}{install_command('grammar')}"
        except Exception as error:  # any kind, because tokenizers differ
            logger.warning(
                "%s does not support the tokenizer, so the model does not accept %s", PACKAGE, RESPONSE_FORMAT
            )
            logger.info("cause of the unsupported tokenizer", exc_info=error)
            self._refusal = f"is not taken: {PACKAGE} cannot read the model's tokenizer"
        self._kept: OrderedDict[tuple[str, str], Future[Any]] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, "grammars")

    @property
    def usable(self) -> bool:
        """Whether the library is installed and supports the model's tokenizer."""
        return self._refusal is None

    def begin(self, form: str, name: str = RESPONSE_FORMAT) -> "Future[Any]":
        """Return a future of the grammar for a JSON format. `FormedText` uses copies of it.

        `name` is the request field. Raises InvalidRequest, or Overloaded if too many grammars are being
        compiled.
        """
        if self._refusal is not None:
            raise field_error(name, f"{name} {self._refusal}")
        if len(form) > MAX_FORMAT_LENGTH:
            raise field_error(name, f"{name} has more than {MAX_FORMAT_LENGTH} characters")
        key = name, form
        kept = self._kept.get(key)
        if kept is None:
            if sum(not each.done() for each in self._kept.values()) >= WAITING:
                raise Overloaded(f"{WAITING} grammars are being made ready; try again later.")
            kept = self._kept[key] = self._threads.submit(self._compile, form, name)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        elif kept.done() and not isinstance(kept.exception(), InvalidRequest | None):
            del self._kept[key]  # not the fault of the format
            return self.begin(form, name)
        else:
            self._kept.move_to_end(key)
        return kept

    def restrict(self, grammar: Any, name: str) -> FormedText:
        """Return the state of a text that follows a compiled grammar."""
        return FormedText(grammar.deep_copy(), name)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _compile(self, form: str, name: str) -> Any:
        """Compile a grammar and compute the mask of the first token."""
        from llguidance import LLMatcher, LLParserLimits

        grammar = _try_in_subprocess(form, name)
        matcher = LLMatcher(self._tokens, grammar, log_level=0, limits=LLParserLimits(**trial.BOUNDS))
        matcher.compute_bitmask()
        if matcher.is_error():
            raise _build_error(name, matcher.get_error())
        return matcher


def _try_in_subprocess(form: str, name: str) -> str:
    """Check a format in a subprocess and return its grammar. Raises InvalidRequest."""
    import llguidance

    packages = Path(str(llguidance.__file__)).parents[1]
    command = [sys.executable, "-I", str(trial.__file__), str(packages)]
    try:
        ran = subprocess.run(command, input=form.encode(), capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Overloaded(f"{name} could not be tried in {PATIENCE:g} s.") from None
    if ran.returncode or not ran.stdout:  # it exceeded a limit, or the library aborted
        logger.info("grammar check exited with %d: %s", ran.returncode, ran.stderr[-MAX_REASON_LENGTH:])
        raise field_error(name, f"{name} is too complex: it takes more than {trial.SECONDS} s or memory")
    answer = json.loads(ran.stdout)
    if answer["error"]:
        raise _build_error(name, answer["error"])
    return str(answer["grammar"])


def _build_error(name: str, message: str) -> InvalidRequest:
    """Return an error with the library's message as a single line."""
    text = " ".join(message.replace("<non-verbose/>", "").split())
    return field_error(name, f"{name}: {text[:MAX_REASON_LENGTH].rstrip('.')}")
