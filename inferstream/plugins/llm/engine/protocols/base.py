"""`EngineProtocol`: what the runtime needs from the protocol of an engine."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from inferstream.errors import ModelError

from ...requests import ReadRequest
from ..rpc.channel import RpcMethod
from ..settings import EngineSettings

Top = Sequence[tuple[int, float]]
"""Token IDs with their log probabilities, the most likely first."""

MAX_REASON_LENGTH = 500


class EngineLost(Exception):
    """The engine exited, is unhealthy or cannot be reached."""


class EngineSick(EngineLost):
    """The engine reports that it is not healthy."""


class EngineFailed(Exception):
    """The engine reports that it failed on a request."""


class ProtocolMismatch(Exception):
    """The peer does not serve the protocol."""


class EngineClient(ABC):
    """Calls the RPCs of one engine."""

    kv_usage: float | None
    """Mean fraction of its KV caches in use, if known."""

    @abstractmethod
    async def ask(self, method: RpcMethod, request: Any) -> Any:
        """Return the only response of an RPC. Raises EngineLost, ProtocolMismatch or ModelError."""

    @abstractmethod
    def read(self, method: RpcMethod, request: Any, timeout: float) -> AsyncIterator[Any]:
        """Yield the responses of an RPC, for up to `timeout` seconds. Raises as `ask`."""


class Facts(NamedTuple):
    """Facts about the model of an engine. None and 0 for a fact that the engine does not report."""

    context: int
    """Maximum number of tokens of prompt and completion together."""
    vocabulary: int
    architecture: str
    ends: Sequence[int]
    """End tokens."""
    defaults: dict[str, Any]
    """Default sampling parameters."""
    max_calls: int
    """Number of sequences that the engine runs at once."""


class EngineMessage(NamedTuple):
    """A message of an engine in a common form."""

    tokens: Sequence[int]
    """The new tokens, or all tokens if the response is not streamed."""
    finish_reason: str | None = None
    """`stop` or `length`, in the last message."""
    cached_tokens: int = 0
    logprobs: Sequence[tuple[int, float, Top]] = ()
    """Tokens with their log probabilities. The engine may leave out tokens."""
    prompt_logprobs: Sequence[tuple[int, float | None, Top]] = ()


class EngineProtocol(ABC):
    """Builds requests and reads responses of one protocol. One object serves all targets of a model."""

    abort_path = ""
    """Path of the RPC that ends a request, for engines that continue after a call is cancelled."""

    streams_only = False
    """Whether a response that is not streamed also consists of several messages."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings

    @abstractmethod
    def method(self, streamed: bool) -> RpcMethod:
        """Return the RPC that generates text."""

    @abstractmethod
    def build_options(self, read: ReadRequest, salt: str) -> Any:
        """Return the part of a request that does not change if it moves to another engine.

        Requests with different values of `salt` must not share prefixes. Raises InvalidRequest for an option
        that the protocol lacks.
        """

    @abstractmethod
    def build(
        self, read: ReadRequest, options: Any, identifier: str, written: Sequence[int], streamed: bool
    ) -> Any:
        """Return a request for the tokens that follow the prompt and the written tokens."""

    @abstractmethod
    def parse(self, message: Any, streamed: bool) -> EngineMessage:
        """Read a message. Raises EngineLost or EngineFailed."""

    @abstractmethod
    async def check(self, client: EngineClient) -> float | None:
        """Return the use of the KV cache of a healthy engine, if known. Raises EngineLost or ProtocolMismatch."""

    @abstractmethod
    async def read_facts(self, client: EngineClient) -> Facts:
        """Return facts about the model. Raises ModelError if it cannot be served."""

    def build_abort(self, identifier: str) -> Any:
        """Return the request of `abort_path`."""
        raise NotImplementedError

    @staticmethod
    def check_adapter(name: str, known: Sequence[str]) -> None:
        """Raise ModelError unless the engine has loaded a LoRA adapter."""
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ModelError(f'its engine has no LoRA adapter "{name}" (available: {listed})')

    async def read_tokenizer(self, client: EngineClient) -> tuple[bytes, str]:
        """Return the archive of tokenizer files, and its SHA-256 digest."""
        raise NotImplementedError


def shorten(reason: str) -> str:
    """Return the first line of a message from an engine, shortened."""
    return reason.strip().partition("\n")[0][:MAX_REASON_LENGTH].rstrip(".")
