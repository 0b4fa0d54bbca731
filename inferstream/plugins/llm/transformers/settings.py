"""Settings of the language model runtime, in `parameters.extra` of a model."""

from typing import Literal

from pydantic import ConfigDict, Field

from ..failover_settings import FailoverSettings

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class LanguageSettings(FailoverSettings):
    """The schema of `parameters.extra`. Unknown names are errors, because they are probably typos."""

    model_config = ConfigDict(extra="forbid")

    pretrained_model: str | None = None
    """Name of a model on the Hugging Face Hub, or a folder, instead of `parameters.uri`."""
    dtype: Dtype | None = None
    """Type of weights and cache, or `auto` for the type in the checkpoint. If null: `float32` on a CPU, else
    `auto`."""
    quantize: Literal["int8"] | None = None
    """8-bit weights for linear layers, which compute in `dtype`."""
    device: str | None = None
    """PyTorch device. If null: `cuda` if available, else `cpu`."""
    max_context: int | None = Field(None, ge=2)
    """Maximum number of tokens of prompt and completion together, up to the limit of the model. If null: that
    limit."""
    max_tokens: int | None = Field(None, ge=1)
    """Maximum number of completion tokens for requests without a limit. If null: the rest of the context."""
    prefill_budget: int | None = Field(None, ge=1)
    """Maximum number of prompt tokens that are processed in one step. If null: 128 on a CPU, else 2048."""
    prefix_tokens: int = Field(4096, ge=0)
    """Maximum number of tokens of finished streams to keep in memory for prompts with the same prefix. Use 0
    to disable all reuse of prefixes."""
    attention: Literal["shared", "paged"] = "shared"
    """How streams advance together: `shared` for one cache that inferstream manages, or `paged` for the continuous
    batching of transformers, which accepts fewer options."""
    cache_tokens: int | None = Field(None, ge=1)
    """Tokens of all streams in the cache of `paged`, at least the context. If null: a share of the free memory
    of a GPU, or 4 contexts on a CPU."""
    share_prefixes: bool = False
    """Reuse prefixes across prompts of different clients, which can infer from response times that a prefix
    was used before."""
    sampling: dict[str, float] = Field(default_factory=dict)
    """Default sampling parameters. If empty: the generation_config of the model."""
    chat_template: str | None = None
    """Jinja template to use instead of the template of the tokenizer."""
