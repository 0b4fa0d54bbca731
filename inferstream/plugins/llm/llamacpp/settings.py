"""Settings of the llama.cpp runtime, in `parameters.extra` of a model."""

from pydantic import ConfigDict, Field

from ..failover_settings import FailoverSettings


class LlamaSettings(FailoverSettings):
    """The schema of `parameters.extra`. Unknown names are errors, because they are probably typos."""

    model_config = ConfigDict(extra="forbid")

    n_ctx: int = Field(4096, ge=1)
    """Maximum tokens of prompt and output together, limited by the context length of the model."""
    n_threads: int | None = Field(None, ge=1)
    """Threads of one run. By default, the number of processors available to this process."""
    n_gpu_layers: int = 0
    """Layers on the GPU. -1 for all."""
    cache_tokens: int | None = Field(None, ge=1)
    """Tokens of all streams and reusable prefixes in the cache, at least `n_ctx`. By default, 4 times `n_ctx`."""
    share_prefixes: bool = False
    """Whether principals share cached prompt prefixes. Response times can then reveal other prompts."""
    chat_format: str | None = None
    """A chat format of llama-cpp-python, such as `chatml`. By default, the template in the file."""
