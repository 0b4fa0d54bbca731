"""A fake engine of the protocol vllm.inference, which does what the other fake engine does.

It continues after a call is cancelled, as vLLM does, until it is asked to abort the request.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

from inferstream.plugins.llm.engine.protos import vllm_engine, vllm_inference
from tests.fake_engine import CONTEXT, FakeEngine, main

ADAPTERS = ("pirate", "poet")
ALL_TOKENS = 2**31 - 1


def translate_request(request: Any, stream: bool) -> Any:
    """The same request in the other protocol."""
    sampling, decoding, response = request.sampling, request.decoding, request.response
    other = vllm_engine.Generate(request_id=request.request_id, stream=stream)
    other.tokenized.input_ids.extend(request.token_ids.ids)
    given = other.sampling_params
    given.temperature, given.top_p, given.min_p = request.temperature, sampling.top_p, sampling.min_p
    given.top_k = 0 if sampling.top_k == ALL_TOKENS else sampling.top_k
    if sampling.HasField("seed"):
        given.seed = sampling.seed % 2**31
    for name in ("presence_penalty", "frequency_penalty", "repetition_penalty"):
        setattr(given, name, getattr(decoding, name))
    given.logit_bias.update(decoding.logit_bias)
    match decoding.WhichOneof("structured_output"):
        case "json":
            given.json_schema = decoding.json
        case "choice":
            given.choice.choices.extend(decoding.choice.choices)
        case str(name):
            setattr(given, name, getattr(decoding, name))
    given.grammar_from_first_token = given.WhichOneof("constraint") is not None
    given.max_tokens, given.min_tokens = request.stopping.max_new_tokens, request.stopping.min_new_tokens
    given.stop_token_ids.extend(request.stopping.stop_token_ids)
    given.ignore_eos = request.stopping.ignore_eos
    assert response.output_token_ids
    assert not response.output_text
    if response.output_logprobs:
        given.logprobs = response.output_candidates.top_n + bool(response.output_candidates.top_n)
    if response.prompt_logprobs:
        given.prompt_logprobs = response.prompt_candidates.top_n
    return other


def translate_message(message: Any, prompt: Any) -> Any:
    """The same message in this protocol."""
    other = vllm_inference.Generated()
    if message.HasField("complete"):
        reasons = {"length": 1, "stop": 2, "abort": 3}
        if (reason := reasons.get(message.complete.finish_reason)) is not None:
            other.outputs.finish_info.finish_reason = reason
        return other
    output, scores = other.outputs, message.chunk.output_logprobs
    output.token_ids.extend(message.chunk.token_ids)
    output.logprobs.extend(scores.token_logprobs)
    for token, top in zip(scores.token_ids, scores.top_logprobs, strict=False):
        pairs = [each for each in zip(top.token_ids, top.values, strict=True) if each[0] != token]
        output.candidate_tokens.add(tokens=[{"id": each, "logprob": value} for each, value in pairs])
    if message.chunk.HasField("input_logprobs"):
        scores = message.chunk.input_logprobs
        other.prompt_info.token_ids.extend(prompt)
        other.prompt_info.logprobs.extend(each.value for each in scores.token_logprobs)
    return other


class FakeInference(FakeEngine):
    """The servicer."""

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.note_request(request)
        ended = False
        try:
            async for message in self.generate(translate_request(request, True), context):
                yield translate_message(message, request.token_ids.ids)
            ended = True
        finally:
            if not ended:
                self.note("left", id=request.request_id)

    async def whole(self, request: Any, context: Any) -> Any:
        self.note_request(request)
        async for message in self.generate(translate_request(request, False), context):
            other = translate_message(message, ())
            other.outputs.token_ids.extend(message.complete.output_ids)
            return other
        raise AssertionError

    def note_request(self, request: Any) -> None:
        self.note(
            "request",
            salt=request.kv.cache_salt,
            lora=request.lora_name,
            allowed=[*request.decoding.allowed_token_ids],
            seed=request.sampling.seed,
        )

    async def abort(self, request: Any, _: Any) -> Any:
        for each in request.request_ids:
            self.note("aborted", id=each)
        return vllm_inference.Empty()

    async def inference_info(self, _: Any, context: Any) -> Any:
        if self.read("unhealthy") is not None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "sick")
        await self.health(None, context)  # which may not return
        return vllm_inference.ServerInfo(max_model_len=CONTEXT, max_running_requests=self.seqs)

    async def inference_model(self, *_: Any) -> Any:
        return vllm_inference.ModelInfo(
            model_id="fake", supports_token_ids_input=self.read("text only") is None
        )

    async def adapters(self, *_: Any) -> Any:
        return vllm_inference.Loras(adapters=[{"lora_name": each} for each in ADAPTERS])

    def server(self) -> grpc.aio.Server:
        server = grpc.aio.server()
        write = lambda message: message.SerializeToString()  # noqa: E731
        stream, unary = grpc.unary_stream_rpc_method_handler, grpc.unary_unary_rpc_method_handler
        generate, empty = vllm_inference.Generate.FromString, vllm_inference.Empty.FromString
        inference = {
            "GenerateStream": stream(self.stream, generate, write),
            "Generate": unary(self.whole, generate, write),
        }
        control = {
            "GetServerInfo": unary(self.inference_info, empty, write),
            "GetModelInfo": unary(self.inference_model, empty, write),
            "ListLoras": unary(self.adapters, empty, write),
            "Abort": unary(self.abort, vllm_inference.Abort.FromString, write),
        }
        handlers = {"vllm.Inference": inference, "vllm.Control": control}
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(name, each) for name, each in handlers.items()]
        )
        return server


if __name__ == "__main__":
    sys.exit(asyncio.run(main(FakeInference)))
