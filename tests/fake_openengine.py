"""A fake engine of the protocol OpenEngine, which does what the other fake engines do.

It continues after a call is cancelled, until it is asked to abort the request.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

from inferstream.plugins.llm.engine.protos import openengine, vllm_engine
from tests.fake_engine import CONTEXT, FakeEngine, main
from tests.fake_inference import ADAPTERS, ALL_TOKENS

FLOATS = ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty")
REASONS = {"stop": openengine.STOP, "length": openengine.LENGTH, "abort": openengine.CANCELLED}


def translate_request(request: Any) -> Any:
    """The same request in the protocol vllm.grpc.engine."""
    other = vllm_engine.Generate(request_id=request.request_id, stream=True)
    other.tokenized.input_ids.extend(request.token_ids.ids)
    given, sampling, response = other.sampling_params, request.sampling, request.response
    for name in FLOATS:
        assert sampling.HasField(name)
        setattr(given, name, getattr(sampling, name))
    given.top_k = 0 if sampling.top_k == ALL_TOKENS else sampling.top_k
    if sampling.HasField("seed"):
        given.seed = sampling.seed % 2**31
    match request.guided.WhichOneof("guide"):
        case "choice":
            given.choice.choices.extend(request.guided.choice.choices)
        case "json_object":
            given.json_object = True
        case "ebnf_grammar":
            given.grammar = request.guided.ebnf_grammar
        case str(name):
            setattr(given, name, getattr(request.guided, name))
    given.grammar_from_first_token = given.WhichOneof("constraint") is not None
    given.max_tokens, given.min_tokens = request.stopping.max_tokens, request.stopping.min_tokens
    given.stop_token_ids.extend(each.stop_token_id for each in request.stopping.conditions)
    given.ignore_eos = request.stopping.ignore_eos
    assert request.stopping.include_stop_in_output
    if response.return_output_logprobs:
        given.logprobs = response.output_candidates.top_n + bool(response.output_candidates.top_n)
    if response.return_prompt_logprobs:
        given.prompt_logprobs = response.prompt_candidates.top_n
    return other


def translate_message(message: Any, prompt: Any) -> list[Any]:
    """The same message in this protocol, in which the prompt has one of its own."""
    if message.HasField("complete"):
        other = openengine.Generated()
        if message.complete.finish_reason == "error":
            other.error.code = 12
            return [other]
        other.finished.reason = REASONS.get(message.complete.finish_reason, 0)
        other.usage.cached_prompt_tokens = message.complete.cached_tokens
        return [other]
    found, scores = [], message.chunk.output_logprobs
    if message.chunk.HasField("input_logprobs"):
        other = openengine.Generated()
        for index, (token, score) in enumerate(
            zip(prompt, message.chunk.input_logprobs.token_logprobs, strict=True)
        ):
            other.prompt.tokens.add(token_id=token, **({"logprob": score.value} if index else {}))
        found.append(other)
    other = openengine.Generated()
    for index, token in enumerate(message.chunk.token_ids):
        info = other.token.tokens.add(token_id=token)
        if index < len(scores.token_ids):
            info.logprob = scores.token_logprobs[index]
            for top in scores.top_logprobs[index : index + 1]:
                for each, value in zip(top.token_ids, top.values, strict=True):
                    info.candidates.add(token_id=each, logprob=value)
    return [*found, other]


class FakeOpenEngine(FakeEngine):
    """The servicer."""

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.note("request", salt=request.kv.cache_salt, lora=request.lora_name, model=request.model)
        if (code := self.read("error")) is not None:
            failed = openengine.Generated()
            failed.error.code, failed.error.message = int(code), f"code {code}\nin /a/secret/path"
            yield failed
            return
        async for message in self.generate(translate_request(request), context):
            for other in translate_message(message, request.token_ids.ids):
                yield other

    async def abort(self, request: Any, _: Any) -> Any:
        self.note("aborted", id=request.request_id)
        return openengine.Empty()

    async def report_health(self, _: Any, context: Any) -> Any:
        health = await self.health(None, context)  # which may not return
        return openengine.Health(state=openengine.READY if health.healthy else 5)

    async def load(self, *_: Any) -> Any:
        return openengine.Load(used_kv_blocks=round(self.usage * 100), total_kv_blocks=100)

    async def open_server_info(self, *_: Any) -> Any:
        role, minimum = int(self.read("role") or openengine.AGGREGATED), int(self.read("revision") or 1)
        info = openengine.ServerInfo(
            engine_role=role, schema_revision=minimum, minimum_client_revision=minimum
        )
        info.capacity.max_running_requests = self.seqs
        return info

    async def open_model_info(self, *_: Any) -> Any:
        info = openengine.ModelInfo(model_id="fake", served_model_name="served", max_context_length=CONTEXT)
        info.supports_token_ids_input = self.read("text only") is None
        info.generation.supports_cache_salt = self.read("no salt") is None
        return info

    async def adapters(self, *_: Any) -> Any:
        return openengine.Loras(adapters=[{"lora_name": each} for each in ADAPTERS])

    def server(self) -> grpc.aio.Server:
        server = grpc.aio.server()
        write = lambda message: message.SerializeToString()  # noqa: E731
        stream, unary = grpc.unary_stream_rpc_method_handler, grpc.unary_unary_rpc_method_handler
        empty = openengine.Empty.FromString
        inference = {"Generate": stream(self.stream, openengine.Generate.FromString, write)}
        control = {
            "GetServerInfo": unary(self.open_server_info, empty, write),
            "GetModelInfo": unary(self.open_model_info, empty, write),
            "GetLoad": unary(self.load, empty, write),
            "Health": unary(self.report_health, empty, write),
            "ListLoras": unary(self.adapters, empty, write),
            "Abort": unary(self.abort, openengine.Abort.FromString, write),
        }
        handlers = {"openengine.v1.Inference": inference, "openengine.v1.Control": control}
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(name, each) for name, each in handlers.items()]
        )
        return server


if __name__ == "__main__":
    sys.exit(asyncio.run(main(FakeOpenEngine)))
