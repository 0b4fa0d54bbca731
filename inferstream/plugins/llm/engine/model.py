"""`Engine`: a language model in an inference engine, such as vLLM, that runs in another process."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferstream import ModelSettings, Token, request_context
from inferstream.errors import HINT, InferstreamError, ModelLoadFailed
from inferstream.ext.runtimes import FrameworkModel, to_absolute_path
from inferstream.ext.telemetry import get_logger
from inferstream.plugins.text.template import find_formats
from inferstream.types import InferenceRequest, InferenceResponse

from ..requests import GenerationReader
from ..responses import CACHED_TOKENS, RESUMED, build_response
from ..sampling import Sampling, read_sampling
from ..text_tensors import TEXT
from ..tokenizer_prompts import Prompts
from .settings import CONNECT_SECONDS, EngineSettings
from .tokenizer import FastTokenizer, read_archive, read_folder

if TYPE_CHECKING:
    from .engines import Engines
    from .protocols.base import EngineProtocol, Facts
    from .stream import EngineStream
    from .target import EngineTarget

logger = get_logger("runtimes")

EXTRA = "engine"

KNOWN_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class Engine(FrameworkModel):
    """A language model behind the gRPC protocol of an engine.

    The engine receives and returns token IDs. Templates, tokens, stop strings and tool calls are processed
    here.
    """

    gives_logprobs = takes_token_ids = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._engines: Engines | None = None
        self._protocol: EngineProtocol
        self._threads: ThreadPoolExecutor | None = None

    @property
    def kv_usage(self) -> float | None:  # type: ignore[override]
        return None if self._engines is None else self._engines.kv_usage

    async def load(self) -> bool:
        self._refuse_code(Path(self.settings.source or ""), "an engine")
        settings = self._validate_settings(EngineSettings)
        await asyncio.to_thread(self._import_libraries)
        from . import engines, stream, target
        from .protocols import base, openengine, vllm_engine, vllm_inference

        self._start_stream = stream.EngineStream
        self._policy = stream.Policy(self.name, settings.failover, settings.failover_timeout)
        process = self._build_process(settings)
        kinds: dict[str, type[EngineProtocol]] = {
            "openengine": openengine.OpenEngine,
            "vllm.grpc.engine": vllm_engine.VllmEngine,
            "vllm.inference": vllm_inference.VllmInference,
        }
        self._protocol = protocol = kinds[settings.protocol](settings)
        targets = [target.EngineTarget(each, settings.connections, protocol) for each in settings.target]
        self._engines = engines.Engines(self.name, targets, process, self._report)
        limit = settings.start_timeout or (None if settings.command else CONNECT_SECONDS)
        try:
            first = await self._engines.open(limit)
            facts = await protocol.read_facts(first)
            await self._read_model(first, settings, facts)
            if self.settings.max_concurrency is None and facts.max_calls:  # others wait in our queue
                self.settings.max_concurrency = len(targets) * facts.max_calls
        except BaseException as error:
            await self.unload()
            if isinstance(error, base.ProtocolMismatch):
                reason = f"{targets[0].label} does not serve the protocol {settings.protocol}"
                raise self._build_load_error(reason) from error
            if isinstance(error, base.EngineLost) or (
                isinstance(error, InferstreamError) and not isinstance(error, ModelLoadFailed)
            ):
                raise self._build_load_error(str(error)) from error
            raise
        return True

    def _import_libraries(self) -> None:
        with self._importing():
            self._import("hpack", EXTRA)
            self._import("tokenizers", EXTRA)
            from . import stream  # noqa: F401

    async def unload(self) -> bool:
        if self._engines is not None:
            await self._engines.close()
            self._engines = None
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        return True

    async def predict(self, payload: InferenceRequest) -> Token | InferenceResponse:
        stream = await self._open(payload, streamed=False)
        try:
            token = await stream.receive_whole()
        finally:
            stream.close()
        return self._respond(token, {CACHED_TOKENS: stream.cached_tokens}) if stream.cached_tokens else token

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[Token | InferenceResponse]:
        async for payload in payloads:
            stream = await self._open(payload, streamed=True)
            try:
                while not stream.ended:
                    tokens = stream.take(await stream.receive())
                    if stream.resumed and tokens:
                        stream.resumed = False
                        yield self._respond(tokens.pop(0), {RESUMED: True})
                    if stream.ended and stream.cached_tokens and tokens:
                        yield self._respond(tokens.pop(), {CACHED_TOKENS: stream.cached_tokens})
                    for token in tokens:
                        yield token
            finally:
                stream.close()

    def _respond(self, token: Token, parameters: dict[str, Any]) -> InferenceResponse:
        return build_response(self.name, self.version, self.outputs[0], token, parameters)

    async def _open(self, payload: InferenceRequest, streamed: bool) -> "EngineStream":
        assert self._engines is not None
        context, loop = request_context(), asyncio.get_running_loop()
        read = await loop.run_in_executor(self._threads, self._reader.read, payload, context.single)
        return self._start_stream(
            read, context, streamed, self._engines, self._protocol, self._policy, self._tokenizer, self._ends
        )

    def _report(self, ready: bool) -> None:
        if self.ready is not None:  # the server sets it after `load`
            self.ready = ready

    def _build_process(self, settings: EngineSettings) -> Any:
        if not settings.command:
            return None
        from .process import EngineProcess

        try:
            return EngineProcess(self.name, settings.target[0], settings.command, settings.environment)
        except FileNotFoundError:
            reason = f'command: there is no program "{Path(settings.command[0]).name}"'
            raise self._build_load_error(reason) from None

    async def _read_model(self, target: "EngineTarget", settings: EngineSettings, facts: "Facts") -> None:
        """Read the tokenizer and the properties of the model. Raises ModelLoadFailed."""
        sent = settings.tokenizer is None
        self._tokenizer = tokenizer = await self._read_tokenizer(target, settings)
        untrusted = self.name if sent and not self.settings.trust_remote_code else None
        prompts = Prompts(tokenizer, settings.chat_template, untrusted)
        calls, prompts.reasoning = find_formats(self.settings, self._untrusted, prompts.template)
        context = min(filter(None, (settings.max_context, facts.context)), default=0)
        if not context:
            raise self._build_load_error("its engine reports no context length; set max_context")
        known = {name: facts.defaults.get(name) for name in KNOWN_DEFAULTS}
        defaults = read_sampling(known, Sampling(temperature=1.0))
        sampling = read_sampling(settings.sampling, defaults)
        self._reader = GenerationReader(
            prompts, calls, True, facts.vocabulary or tokenizer.size, context, sampling, settings.max_tokens
        )
        self._ends = frozenset((*facts.ends, *tokenizer.ends))
        # A limited template renders one prompt at a time.
        self._threads = ThreadPoolExecutor(1 if untrusted else 2, f"{self.name}-prompts")
        self.inputs = self.inputs or self._reader.inputs()
        self.outputs = self.outputs or [TEXT]
        self._description = self._reader.describe(facts.architecture)

    async def _read_tokenizer(self, target: "EngineTarget", settings: EngineSettings) -> FastTokenizer:
        try:
            if settings.tokenizer is not None:
                path = Path(to_absolute_path(self.settings, settings.tokenizer))
                files = await asyncio.to_thread(read_folder, path)
            else:
                files = read_archive(*await self._protocol.read_tokenizer(target))
            return await asyncio.to_thread(FastTokenizer, files)
        except Exception as error:
            logger.error("model %s: no tokenizer", self.name, exc_info=error)
            source = "its engine sends no usable tokenizer" if settings.tokenizer is None else "tokenizer"
            reason = error.strerror if isinstance(error, OSError) else str(error)
            hint = "set tokenizer to a folder with tokenizer.json"
            raise self._build_load_error(f"{source}: {reason}{HINT}{hint}") from error
