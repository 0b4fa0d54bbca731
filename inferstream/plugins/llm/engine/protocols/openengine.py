"""`openengine`: the protocol OpenEngine, revision 1 (services `openengine.v1.Inference` and `openengine.v1.Control`).

https://github.com/ai-dynamo/openengine. Each response is a stream. A call that ends early is followed by `Abort`.
"""

from collections.abc import Sequence
from typing import Any

from inferstream.errors import InvalidRequest, ModelError, Overloaded
from inferstream.plugins.text.fields import field_error

from ...requests import ReadRequest
from ..protos import openengine as protos
from ..rpc.channel import RpcMethod
from ..settings import EngineSettings
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

CONTROL = "/openengine.v1.Control/"
GENERATE = RpcMethod(
    "/openengine.v1.Inference/Generate", protos.Generate.SerializeToString, protos.Generated.FromString
)
REVISION = 1
"""The revision of the protocol that this client implements."""

SEEDS = 2**64
ALL_TOKENS = 2**31 - 1
"""A `top_k` for all tokens. Without the field, the default of the engine applies."""

FLOATS = ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty")
MISSING = ("logit_bias", "allowed_token_ids", "bad_words")
"""Parameters for which the protocol has no field."""

GUIDES = {"json_schema": "json_schema", "regex": "regex", "grammar": "ebnf_grammar"} | {
    "structural_tag": "structural_tag"
}


class OpenEngine(EngineProtocol):
    """The protocol of an engine that reads prompts and generates tokens, not of one part of such an engine."""

    abort_path = f"{CONTROL}Abort"
    streams_only = True

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings)
        self._model = ""
        self._has_salt = False

    def method(self, streamed: bool) -> RpcMethod:
        return GENERATE

    def build_options(self, read: ReadRequest, salt: str) -> Any:
        given = read.sampling
        for name in MISSING:
            if getattr(given, name):
                raise field_error(name, f"{name} is not taken: the protocol of the engine has no such option")
        request = protos.Generate(model=self._model, lora_name=self._settings.lora or "")
        sampling, response = request.sampling, request.response
        for name in FLOATS:
            setattr(sampling, name, getattr(given, name))
        sampling.top_k = given.top_k or ALL_TOKENS
        if given.seed is not None:
            sampling.seed = given.seed % SEEDS
        stopping = request.stopping
        stopping.ignore_eos, stopping.include_stop_in_output = given.ignore_eos, True
        for token in given.stop_token_ids:
            stopping.conditions.add(stop_token_id=token)
        if given.logprobs:
            response.return_output_logprobs = True
            response.output_candidates.top_n = given.top_logprobs
        if given.prompt_logprobs is not None:
            response.return_prompt_logprobs = True
            response.prompt_candidates.top_n = given.prompt_logprobs
        if (constraint := read_constraint(read.beginning)) is not None:
            kind, value = constraint
            if kind == "choice":
                request.guided.choice.choices.extend(value)
            elif kind == "json_object":
                request.guided.json_object.SetInParent()
            else:
                setattr(request.guided, GUIDES[kind], value)
        if salt and self._has_salt:
            request.kv.cache_salt = salt
        return request

    def build(
        self, read: ReadRequest, options: Any, identifier: str, written: Sequence[int], streamed: bool
    ) -> Any:
        request = protos.Generate()
        request.CopyFrom(options)
        request.request_id = identifier
        request.token_ids.ids.extend(read.prompt)
        request.token_ids.ids.extend(written)
        request.stopping.max_tokens = read.limit - len(read.prompt) - len(written)
        request.stopping.min_tokens = max(read.sampling.min_tokens - len(written), 0)
        if written:
            request.response.ClearField("return_prompt_logprobs")
            request.response.ClearField("prompt_candidates")
        return request

    def parse(self, message: Any, streamed: bool) -> EngineMessage:
        cached = message.usage.cached_prompt_tokens
        match message.WhichOneof("event"):
            case "prompt":
                return EngineMessage((), prompt_logprobs=[_read_info(each) for each in message.prompt.tokens])
            case "token":
                tokens = message.token.tokens
                scored = [_read_info(each) for each in tokens] if tokens[0].HasField("logprob") else []
                return EngineMessage([each.token_id for each in tokens], logprobs=scored)
            case "finished":
                if message.finished.reason == protos.CANCELLED:
                    raise EngineLost("it cancelled the request")
                reason = "length" if message.finished.reason == protos.LENGTH else "stop"
                return EngineMessage((), reason, cached)
            case "error":
                raise _translate_error(message.error)
        return EngineMessage(())  # an event of a later revision

    async def check(self, client: EngineClient) -> float | None:
        health = await self._ask(client, "Health", protos.Health)
        if health.state not in (protos.READY, protos.DEGRADED):
            raise EngineSick("it is not healthy")
        load = await self._ask(client, "GetLoad", protos.Load)
        return load.used_kv_blocks / load.total_kv_blocks if load.total_kv_blocks else None

    async def read_facts(self, client: EngineClient) -> Facts:
        server = await self._ask(client, "GetServerInfo", protos.ServerInfo)
        if not server.schema_revision or server.minimum_client_revision > REVISION:
            raise ProtocolMismatch("its revision of the protocol is not supported")
        if server.engine_role > protos.AGGREGATED:
            raise ModelError("its engine has the role of prefill or decode, and cannot generate text alone")
        model = await self._ask(client, "GetModelInfo", protos.ModelInfo)
        if model.HasField("supports_token_ids_input") and not model.supports_token_ids_input:
            raise ModelError("its engine does not accept token IDs")
        self._model = model.served_model_name
        self._has_salt = model.generation.supports_cache_salt
        await self._check_lora(client)
        calls = server.capacity.max_running_requests
        return Facts(model.max_context_length, 0, model.model_id, (), {}, calls)

    async def _check_lora(self, client: EngineClient) -> None:
        """Raise ModelError if the engine has not loaded the adapter of the settings."""
        if (name := self._settings.lora) is not None:
            adapters = (await self._ask(client, "ListLoras", protos.Loras)).adapters
            self.check_adapter(name, [each.lora_name for each in adapters])

    def build_abort(self, identifier: str) -> Any:
        return protos.Abort(request_id=identifier)

    async def _ask(self, client: EngineClient, rpc: str, reply: Any) -> Any:
        """Call an RPC with the default values of its arguments."""
        method = RpcMethod(f"{CONTROL}{rpc}", protos.Empty.SerializeToString, reply.FromString)
        return await client.ask(method, protos.Empty())


def _translate_error(error: Any) -> Exception:
    reason = shorten(error.message)
    match error.code:
        case protos.INVALID_ARGUMENT | protos.UNSUPPORTED_FEATURE | protos.MODEL_NOT_FOUND:
            return InvalidRequest(f"The engine does not accept the request: {reason}.")
        case protos.OVERLOADED:
            return Overloaded("The engine has no room for the request.")
        case protos.ABORTED | protos.DRAINING:
            return EngineLost(reason)
    return EngineFailed(reason)


def _read_info(info: Any) -> tuple[int, Any, Top]:
    """Return a token, its log probability or None, and the candidates at its position."""
    top = {each.token_id: each.logprob for each in info.candidates}
    logprob = info.logprob if info.HasField("logprob") else None
    if top and logprob is not None:
        top[info.token_id] = logprob
    return info.token_id, logprob, sorted(top.items(), key=lambda pair: -pair[1])
