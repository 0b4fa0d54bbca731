"""Continuous batching by OpenVINO GenAI: each step advances all streams of the pipeline."""

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..token_stream import ChosenToken, TokenStream
from .options import build_config


@dataclass(slots=True)
class PipelineRequest:
    """A stream in the pipeline, and its tokens that no step has returned yet."""

    handle: Any
    has_logprobs: bool
    ready: deque[ChosenToken] = field(default_factory=deque)


class OpenVinoEngine:
    """Runs the pipeline. Must be called from one thread.

    `library` and `tensors` are the modules `openvino_genai` and `openvino`.
    """

    def __init__(self, library: Any, tensors: Any, pipeline: Any, ends: frozenset[int]) -> None:
        self._library, self._tensors, self._pipeline, self._ends = library, tensors, pipeline, ends
        self._requests: dict[TokenStream, PipelineRequest] = {}
        self._came = 0

    @property
    def cache_usage(self) -> float:
        """The fraction of the cache that active streams use."""
        return float(self._pipeline.get_metrics().cache_usage) / 100 if self._requests else 0.0

    def add(self, stream: TokenStream) -> None:
        """Add a stream. Its prompt is read from the first step that includes it."""

    def remove(self, stream: TokenStream) -> None:
        """Remove a stream, and release its part of the cache with the next step."""
        request = self._requests.pop(stream, None)
        if request is not None:
            request.handle.cancel()
        if not self._requests:
            self._drain()

    def step(self, streams: Sequence[TokenStream]) -> dict[TokenStream, ChosenToken]:
        """Return the next token of each stream that has one.

        The library advances streams that are not in `streams`, too. Their tokens are kept.
        """
        for stream in streams:
            if stream not in self._requests:
                self._start(stream)
        if any(not self._requests[stream].ready for stream in streams):
            self._pipeline.step()
            time.sleep(0)  # the library holds the interpreter lock in a step, so other threads have waited
            for request in self._requests.values():
                _collect(request)
        chosen: dict[TokenStream, ChosenToken] = {}
        for stream in streams:
            request = self._requests[stream]
            if request.ready:
                chosen[stream] = request.ready.popleft()
                stream.tokens.append(chosen[stream].token)
            elif request.handle.get_status() == self._library.GenerationStatus.IGNORED:
                self._restart(stream)
        return chosen

    def _start(self, stream: TokenStream) -> None:
        """Let the pipeline generate the rest of a stream."""
        self._came += 1
        tokens = self._tensors.Tensor(np.array([stream.tokens], np.int64))
        config = build_config(self._library, stream, self._ends)
        handle = self._pipeline.add_request(self._came, tokens, config)
        self._requests[stream] = PipelineRequest(handle, stream.sampling.logprobs)

    def _restart(self, stream: TokenStream) -> None:
        """Start a stream again that the pipeline has dropped because its cache is full."""
        del self._requests[stream]
        if not self._requests:
            raise RuntimeError("the cache has no room for one stream")

    def _drain(self) -> None:
        """Let the pipeline release cancelled streams."""
        with suppress(RuntimeError):  # after a failed step, which has been reported
            while self._pipeline.has_non_finished_requests():
                self._pipeline.step()


def _collect(request: PipelineRequest) -> None:
    """Read the tokens that the pipeline has generated for a stream."""
    while request.handle.can_read():
        for output in request.handle.read().values():
            pairs = zip(output.generated_ids, output.generated_log_probs, strict=True)
            request.ready += [
                ChosenToken(token, logprob if request.has_logprobs else None) for token, logprob in pairs
            ]
