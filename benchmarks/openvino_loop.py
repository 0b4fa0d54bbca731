"""OpenVINO GenAI without a server: a greedy loop over its steps, which is the bound for any server."""

import time
from pathlib import Path
from typing import Any

import numpy as np

CONTEXT = 1024
"""Tokens of the cache for each stream."""


class BareLoop:
    """A pipeline with the settings of the runtime."""

    def __init__(self, path: Path, threads: int, streams: int) -> None:
        import openvino
        import openvino_genai

        self.tensors, self.library = openvino, openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.num_kv_blocks = streams * CONTEXT // 32
        scheduler.max_num_seqs, scheduler.max_num_batched_tokens = streams, 256 + streams
        scheduler.enable_prefix_caching = False
        options = {"INFERENCE_NUM_THREADS": threads, "KV_CACHE_PRECISION": "f16"}
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(path, scheduler, "CPU", options)
        self.tokenizer = self.pipeline.get_tokenizer()
        self.came = 0

    def run(self, prompts: list[str], tokens: int) -> float:
        """Tokens per second, including the time to read the prompts."""
        inputs = [np.array(self.tokenizer.encode(prompt).input_ids.data) for prompt in prompts]
        started = time.perf_counter()
        handles = [self.add(each, tokens) for each in inputs]
        count = 0
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            for handle in handles:
                while handle.can_read():
                    count += sum(len(output.generated_ids) for output in handle.read().values())
        assert count == len(prompts) * tokens
        return count / (time.perf_counter() - started)

    def add(self, prompt: Any, tokens: int) -> Any:
        config = self.library.GenerationConfig()
        config.max_new_tokens, config.ignore_eos = tokens, True
        self.came += 1
        return self.pipeline.add_request(self.came, self.tensors.Tensor(prompt), config)
