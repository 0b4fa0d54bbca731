"""Paged attention: the continuous batching of transformers, which runs in a thread of its own."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from transformers import ContinuousBatchingConfig, GenerationConfig

from inferstream.plugins.text.fields import field_error
from inferstream.types import InferenceRequest

from ..requests import GenerationReader, ReadRequest
from ..sampling import Sampling
from ..token_stream import ChosenToken, TokenStream

PAGE = 64
"""Tokens in a page of the cache."""

CACHED_CONTEXTS = 4
"""Number of streams of maximum length that the cache has room for on a CPU by default."""

TICK = 0.05
"""Maximum seconds that a step waits for a token. New streams join between two steps."""

LOAD_SECONDS = 60.0
"""Maximum seconds until the first token, which allocates the cache."""

MAX_TOP_K = 2**31 - 1

TAKEN = frozenset(
    ("temperature", "top_k", "top_p", "max_tokens", "ignore_eos", "stop_token_ids", "skip_special_tokens")
) | {"truncate_prompt_tokens"}
"""Sampling parameters that the library accepts for each request."""

NEUTRAL = Sampling()


class PagedReader(GenerationReader):
    """Reads requests, and rejects the options that the library does not accept for single requests."""

    def read(self, request: InferenceRequest, single: bool) -> ReadRequest:
        read = super().read(request, single)
        name = read.beginning.name if read.beginning.form is not None else find_unsupported(read.sampling)
        if name is not None:
            raise field_error(name, f'{name} is not taken with the setting attention "paged"')
        return read


def find_unsupported(sampling: Sampling) -> str | None:
    """Return the name of a parameter that the library does not accept, or None."""
    for each in fields(sampling):
        if each.name not in TAKEN and getattr(sampling, each.name) != getattr(NEUTRAL, each.name):
            return each.name
    return None


@dataclass(slots=True)
class PagedRequest:
    """A stream in the library, and its tokens that no step has returned yet."""

    name: str
    received: int = 0
    """Number of tokens that the library has reported."""
    ready: deque[int] = field(default_factory=deque)
    failure: str | None = None


class PagedEngine:
    """Passes streams to the library and reads their tokens. Must be called from one thread.

    `cache_tokens` is the size of the cache, or None for a share of the free memory of the GPU. If `shares`,
    prompts reuse the pages of others with the same prefix.
    """

    def __init__(
        self, model: Any, most: int, budget: int, cache_tokens: int | None, shares: bool, ends: frozenset[int]
    ) -> None:
        self._model, self._ends = model, ends
        self._settings = ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=None if cache_tokens is None else -(-cache_tokens // PAGE) + most,
            max_batch_tokens=budget + most,
            max_requests_per_batch=most,
            allow_block_sharing=shares,
            per_request_processors=True,
        )
        # The library makes only the processors whose values differ from the neutral ones here.
        self._defaults = GenerationConfig(
            do_sample=True, temperature=0.5, top_k=2, top_p=0.5, eos_token_id=-1
        )
        self._requests: dict[TokenStream, PagedRequest] = {}
        self._streams: dict[str, TokenStream] = {}
        self._came = 0
        self._start()

    def _start(self) -> None:
        """Start the thread of the library. Raises RuntimeError if it cannot run the model."""
        self._manager = self._model.init_continuous_batching(self._defaults, self._settings)
        self._manager.start()
        self._manager.add_request([0], "first", 1, temperature=1.0, top_k=1, top_p=1.0)
        first = self._manager.get_result(timeout=LOAD_SECONDS)
        if first is None or first.error is not None:
            self.close()
            raise RuntimeError("transformers cannot run this model with paged attention")

    def add(self, stream: TokenStream) -> None:
        """Add a stream. Its prompt is read from the first step that includes it."""

    def remove(self, stream: TokenStream) -> None:
        """Remove a stream, and release its pages with the next step of the library."""
        request = self._requests.pop(stream, None)
        if request is not None:
            del self._streams[request.name]
            self._manager.cancel_request(request.name)

    def step(self, streams: Sequence[TokenStream]) -> dict[TokenStream, ChosenToken | Exception]:
        """Return the next token of each stream that has one, or its error.

        The library advances streams that are not in `streams`, too. Their tokens are kept.
        """
        for stream in streams:
            if stream not in self._requests:
                self._submit(stream)
        if not any(self._requests[stream].ready for stream in streams):
            self._receive(TICK)
        self._receive(0)
        chosen: dict[TokenStream, ChosenToken | Exception] = {}
        for stream in streams:
            request = self._requests[stream]
            if request.ready:
                token = request.ready.popleft()
                stream.tokens.append(token)
                chosen[stream] = ChosenToken(token)
            elif request.failure is not None:
                chosen[stream] = RuntimeError(f"transformers failed on the stream: {request.failure}")
        return chosen

    def _submit(self, stream: TokenStream) -> None:
        """Let the library generate the rest of a stream. Starts the library again if its thread has failed."""
        if not self._manager.is_running():
            self.close()
            self._start()
        self._came += 1
        sampling, name = stream.sampling, str(self._came)
        stops = {*sampling.stop_token_ids, *(() if sampling.ignore_eos else self._ends)}
        accepted = self._manager.add_request(
            stream.tokens,
            name,
            stream.limit - len(stream.tokens),
            streaming=True,
            eos_token_id=sorted(stops) or -1,
            temperature=sampling.temperature or 1.0,
            top_k=(sampling.top_k or MAX_TOP_K) if sampling.temperature else 1,
            top_p=sampling.top_p,
        )
        request = self._requests[stream] = PagedRequest(name)
        self._streams[name] = stream
        if accepted is None:
            request.failure = "its thread is ending"

    def _receive(self, seconds: float) -> None:
        """Read the tokens that the library has generated, after at most this time."""
        while (output := self._manager.get_result(timeout=seconds)) is not None:
            seconds = 0
            stream = self._streams.get(output.request_id)
            if stream is not None:
                request = self._requests[stream]
                request.ready += output.generated_tokens[request.received :]
                request.received = len(output.generated_tokens)
                request.failure = output.error
        if not self._manager.is_running():
            for request in self._requests.values():
                request.failure = request.failure or "its thread has ended"

    def close(self) -> None:
        """End the thread of the library, and release the cache."""
        self._manager.stop(hard_stop=True)
