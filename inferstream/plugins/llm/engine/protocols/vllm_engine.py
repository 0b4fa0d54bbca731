"""`vllm.grpc.engine`: the protocol of `vllm serve --grpc`, with token IDs in both directions."""

import contextlib
from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.errors import InferstreamError, ModelError
from inferstream.plugins.text.fields import field_error

from ...requests import ReadRequest
from ...sampling import MAX_LOGPROBS
from ..protos import vllm_engine as protos
from ..rpc.call import MAX_MESSAGE_BYTES
from ..rpc.channel import RpcMethod
from .base import (
    EngineClient,
    EngineFailed,
    EngineLost,
    EngineMessage,
    EngineProtocol,
    EngineSick,
    Facts,
    ProtocolMismatch,
    Top,
    shorten,
)
from .constraints import read_constraint

SERVICE = "/vllm.grpc.engine.VllmEngine/"
GENERATE = RpcMethod(f"{SERVICE}Generate", protos.Generate.SerializeToString, protos.Generated.FromString)

SEEDS = 2**31
"""Seeds are taken modulo this number, because the engine has 32 bits and reserves -1 for none."""

MISSING = ("allowed_token_ids", "bad_words")
"""Parameters for which the protocol has no field."""

NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
OTHERS = ("top_k", "min_tokens", "ignore_eos")

TOKENIZER_TIMEOUT_SECONDS = 30.0


class VllmEngine(EngineProtocol):
    """The protocol of the package `smg-grpc-servicer`. It has no field for a cache salt."""

    def method(self, streamed: bool) -> RpcMethod:
        return GENERATE

    def build_options(self, read: ReadRequest, salt: str) -> Any:
        given = read.sampling
        for name in MISSING:
            if getattr(given, name):
                raise field_error(name, f"{name} is not taken: the protocol of the engine has no such option")
        sampling = protos.Generate().sampling_params
        for name in (*NUMBERS, *OTHERS):
            setattr(sampling, name, getattr(given, name))
        sampling.stop_token_ids.extend(given.stop_token_ids)
        if given.seed is not None:
            sampling.seed = given.seed % SEEDS
        if given.logprobs:
            sampling.logprobs = _count_logprobs(given.top_logprobs)
        if given.prompt_logprobs is not None:
            sampling.prompt_logprobs = _count_logprobs(given.prompt_logprobs)
        if given.logit_bias is not None:
            sampling.logit_bias.update(zip(*given.logit_bias, strict=True))
        if (constraint := read_constraint(read.beginning)) is not None:
            kind, value = constraint
            if kind == "choice":
                sampling.choice.choices.extend(value)
            else:
                setattr(sampling, kind, value)
            # The prompt has already closed the reasoning, so the text has this format from its start.
            sampling.grammar_from_first_token = True
        return sampling

    def build(
        self, read: ReadRequest, options: Any, identifier: str, written: Sequence[int], streamed: bool
    ) -> Any:
        request = protos.Generate(request_id=identifier, stream=streamed, sampling_params=options)
        request.tokenized.input_ids.extend(read.prompt)
        request.tokenized.input_ids.extend(written)
        sampling = request.sampling_params
        sampling.max_tokens = read.limit - len(read.prompt) - len(written)
        if written:
            sampling.min_tokens = max(read.sampling.min_tokens - len(written), 0)
            sampling.ClearField("prompt_logprobs")
        return request

    def parse(self, message: Any, streamed: bool) -> EngineMessage:
        if message.HasField("chunk"):
            chunk = message.chunk
            logprobs: Sequence[tuple[int, float, Top]] = ()
            prompt: Sequence[tuple[int, float | None, Top]] = ()
            if chunk.HasField("output_logprobs"):
                scores = chunk.output_logprobs
                logprobs = _join(scores.token_ids, scores.token_logprobs, scores.top_logprobs)
            if chunk.HasField("input_logprobs"):
                scores = chunk.input_logprobs
                values = [each.value if each.HasField("value") else None for each in scores.token_logprobs]
                prompt = _join(scores.token_ids, values, scores.top_logprobs)
            return EngineMessage(chunk.token_ids, None, chunk.cached_tokens, logprobs, prompt)
        complete = message.complete
        reason = complete.finish_reason
        if reason == "abort":
            raise EngineLost("it aborted the request")
        if reason == "error":
            raise EngineFailed
        tokens = () if streamed else complete.output_ids  # a stream has had them
        return EngineMessage(tokens, "length" if reason == "length" else "stop", complete.cached_tokens)

    async def check(self, client: EngineClient) -> float | None:
        health = await self._ask(client, "HealthCheck", protos.Health)
        if not health.healthy:
            raise EngineSick(f"it is not healthy: {shorten(health.message)}")
        with contextlib.suppress(EngineLost, ProtocolMismatch, InferstreamError):  # the load is optional
            loads = (await self._ask(client, "GetLoads", protos.Loads)).loads
            usages = [float(each.token_usage) for each in loads]
            return sum(usages) / len(usages) if usages else None
        return client.kv_usage

    async def read_facts(self, client: EngineClient) -> Facts:
        info = await self._ask(client, "GetModelInfo", protos.ModelInfo)
        if not info.is_generation:
            raise ModelError("the model of its engine does not generate text")
        defaults = orjson.loads(info.default_sampling_params_json or "{}")
        calls = 0
        with contextlib.suppress(EngineLost, ProtocolMismatch, InferstreamError):  # older engines lack it
            calls = (await self._ask(client, "GetServerInfo", protos.ServerInfo)).max_num_seqs
        return Facts(
            info.max_context_length, info.vocab_size, info.model_type, info.eos_token_ids, defaults, calls
        )

    async def read_tokenizer(self, client: EngineClient) -> tuple[bytes, str]:
        method = RpcMethod(
            f"{SERVICE}GetTokenizer", protos.Empty.SerializeToString, protos.TokenizerPart.FromString
        )
        parts, size, digest = [], 0, ""
        async for part in client.read(method, protos.Empty(), TOKENIZER_TIMEOUT_SECONDS):
            size += len(part.data)
            if size > MAX_MESSAGE_BYTES * 4:
                raise ModelError("the archive of the tokenizer is too large")
            parts.append(part.data)
            digest = part.sha256 or digest
        return b"".join(parts), digest

    async def _ask(self, client: EngineClient, rpc: str, reply: Any) -> Any:
        """Call an RPC without arguments."""
        method = RpcMethod(f"{SERVICE}{rpc}", protos.Empty.SerializeToString, reply.FromString)
        return await client.ask(method, protos.Empty())


def _count_logprobs(top: int) -> int:
    """Return the number to request: the engine counts the chosen token as one of the top."""
    return min(top + 1, MAX_LOGPROBS) if top else 0


def _join(tokens: Sequence[int], logprobs: Sequence[Any], tops: Sequence[Any]) -> list[tuple[int, Any, Top]]:
    known = [_sort(top) for top in tops]
    known += [()] * (len(tokens) - len(known))
    return [*zip(tokens, logprobs, known, strict=False)]


def _sort(top: Any) -> Top:
    return sorted(zip(top.token_ids, top.values, strict=True), key=lambda pair: -pair[1])
