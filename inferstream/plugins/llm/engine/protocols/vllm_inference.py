"""`vllm.inference`: the protocol of vLLM's Rust front end (services `vllm.Inference` and `vllm.Control`).

https://github.com/vllm-project/vllm, rust/proto. A call that is cancelled does not stop the engine, so each
one that ends early is followed by `Abort`.
"""

from collections.abc import Sequence
from typing import Any

from inferstream.errors import ModelError
from inferstream.plugins.text.fields import field_error

from ...requests import ReadRequest
from ..protos import vllm_inference as protos
from ..rpc.channel import RpcMethod
from .base import EngineClient, EngineLost, EngineMessage, EngineProtocol, Facts, Top
from .constraints import read_constraint

INFERENCE, CONTROL = "/vllm.Inference/", "/vllm.Control/"
STREAM = RpcMethod(
    f"{INFERENCE}GenerateStream", protos.Generate.SerializeToString, protos.Generated.FromString
)
WHOLE = RpcMethod(f"{INFERENCE}Generate", protos.Generate.SerializeToString, protos.Generated.FromString)

SEEDS = 2**63
"""Seeds are taken modulo this number, because the field is signed."""

PENALTIES = ("presence_penalty", "frequency_penalty", "repetition_penalty")

ALL_TOKENS = 2**31 - 1
"""A `top_k` for all tokens, because 0 stands for the default of the engine."""


class VllmInference(EngineProtocol):
    """The protocol has no RPC for health or load, so an engine that responds is healthy."""

    abort_path = f"{CONTROL}Abort"

    def method(self, streamed: bool) -> RpcMethod:
        return STREAM if streamed else WHOLE

    def build_options(self, read: ReadRequest, salt: str) -> Any:
        given = read.sampling
        if given.bad_words:
            raise field_error(
                "bad_words", "bad_words is not taken: the protocol of the engine has no such option"
            )
        request = protos.Generate(temperature=given.temperature, lora_name=self._settings.lora or "")
        sampling, decoding, response = request.sampling, request.decoding, request.response
        sampling.top_k, sampling.top_p, sampling.min_p = given.top_k or ALL_TOKENS, given.top_p, given.min_p
        if given.seed is not None:
            sampling.seed = given.seed % SEEDS
        for name in PENALTIES:
            setattr(decoding, name, getattr(given, name))
        if given.logit_bias is not None:
            decoding.logit_bias.update(zip(*given.logit_bias, strict=True))
        decoding.allowed_token_ids.extend(given.allowed_token_ids)
        if (constraint := read_constraint(read.beginning)) is not None:
            kind, value = constraint
            if kind == "choice":
                decoding.choice.choices.extend(value)
            else:
                setattr(decoding, "json" if kind == "json_schema" else kind, value)
        request.stopping.stop_token_ids.extend(given.stop_token_ids)
        request.stopping.ignore_eos = given.ignore_eos
        response.output_text, response.output_token_ids = False, True
        if given.logprobs:
            response.output_logprobs = True
            response.output_candidates.top_n = given.top_logprobs
        if given.prompt_logprobs is not None:
            response.prompt_token_ids = response.prompt_logprobs = True
            response.prompt_candidates.top_n = given.prompt_logprobs
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
        request.stopping.max_new_tokens = read.limit - len(read.prompt) - len(written)
        request.stopping.min_new_tokens = max(read.sampling.min_tokens - len(written), 0)
        if written:
            request.response.prompt_token_ids = request.response.prompt_logprobs = False
            request.response.ClearField("prompt_candidates")
        return request

    def parse(self, message: Any, streamed: bool) -> EngineMessage:
        output = message.outputs
        reason = None
        if output.HasField("finish_info"):
            finish = output.finish_info.finish_reason
            if finish == protos.ABORTED:
                raise EngineLost("it aborted the request")
            if finish:
                reason = "length" if finish == protos.LENGTH else "stop"
        logprobs: Sequence[tuple[int, float, Top]] = ()
        prompt: Sequence[tuple[int, float | None, Top]] = ()
        if output.logprobs:
            logprobs = _join(output.token_ids, output.logprobs, output.candidate_tokens)
        if message.HasField("prompt_info") and message.prompt_info.logprobs:
            info = message.prompt_info
            # Nothing predicts the first token.
            values = [None, *info.logprobs[-(len(info.token_ids) - 1) :]]
            tops = [(), *info.candidate_tokens[-(len(info.token_ids) - 1) :]]
            prompt = _join(info.token_ids, values, tops)
        return EngineMessage(output.token_ids, reason, 0, logprobs, prompt)

    async def check(self, client: EngineClient) -> float | None:
        await self._ask(client, "GetServerInfo", protos.ServerInfo)
        return None

    async def read_facts(self, client: EngineClient) -> Facts:
        server = await self._ask(client, "GetServerInfo", protos.ServerInfo)
        model = await self._ask(client, "GetModelInfo", protos.ModelInfo)
        if not model.supports_token_ids_input:
            raise ModelError("its engine does not accept token IDs")
        if (name := self._settings.lora) is not None:
            adapters = (await self._ask(client, "ListLoras", protos.Loras)).adapters
            self.check_adapter(name, [each.lora_name for each in adapters])
        return Facts(server.max_model_len, 0, model.model_id, (), {}, server.max_running_requests)

    def build_abort(self, identifier: str) -> Any:
        return protos.Abort(request_ids=[identifier])

    async def _ask(self, client: EngineClient, rpc: str, reply: Any) -> Any:
        """Call an RPC without arguments."""
        method = RpcMethod(f"{CONTROL}{rpc}", protos.Empty.SerializeToString, reply.FromString)
        return await client.ask(method, protos.Empty())


def _join(
    tokens: Sequence[int], logprobs: Sequence[Any], candidates: Sequence[Any]
) -> list[tuple[int, Any, Top]]:
    """Join tokens with their log probabilities and the candidates, which do not include the token itself."""
    joined: list[tuple[int, Any, Top]] = []
    for at, (token, logprob) in enumerate(zip(tokens, logprobs, strict=False)):
        others = candidates[at].tokens if at < len(candidates) and candidates[at] else ()
        top = {each.id: each.logprob for each in others}
        if top and logprob is not None:
            top[token] = logprob
        joined.append((token, logprob, sorted(top.items(), key=lambda pair: -pair[1])))
    return joined
