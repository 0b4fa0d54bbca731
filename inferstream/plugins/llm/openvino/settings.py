"""Settings of the OpenVINO runtime, in `parameters.extra` of a model."""

from typing import Literal

from pydantic import ConfigDict, Field

from ..failover_settings import FailoverSettings


class OpenVinoSettings(FailoverSettings):
    """The schema of `parameters.extra`. Unknown names are errors, because they are probably typos."""

    model_config = ConfigDict(extra="forbid")

    max_context: int = Field(4096, ge=2)
    """Maximum number of tokens of prompt and completion together, up to the limit of the model."""
    max_tokens: int | None = Field(None, ge=1)
    """Maximum number of completion tokens for requests without a limit. If null: the rest of the context."""
    n_threads: int | None = Field(None, ge=1, le=1024)
    """Threads of a step. If null: the number of processors available to this process."""
    cache_tokens: int | None = Field(None, ge=1)
    """Tokens of all streams and reusable prefixes in the cache, at least `max_context`. If null: 4 times
    `max_context`."""
    cache_precision: Literal["u8", "f16", "f32"] = "f16"
    """Type of the cache. With `u8`, greedy text can depend on the other streams in a step."""
    prefill_budget: int = Field(256, ge=1)
    """Maximum number of prompt tokens that are processed in one step."""
    share_prefixes: bool = False
    """Reuse the cache of prompts with the same prefix. The library does not separate clients, which can infer
    from response times that a prefix was used before."""
    sampling: dict[str, float] = Field(default_factory=dict)
    """Default sampling parameters, which override `generation_config.json` of the model."""
    chat_template: str | None = None
    """Jinja template to use instead of the template of the model."""
