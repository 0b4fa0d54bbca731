"""Settings of the language model runtime: `parameters.extra` of a model's settings."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class LanguageSettings(BaseModel):
    """What `parameters.extra` may hold. Unknown names are refused, because they are typing errors."""

    model_config = ConfigDict(extra="forbid")

    pretrained_model: str | None = None
    """Name of a model at the Hugging Face hub, or a folder, in place of `parameters.uri`."""
    dtype: Dtype | None = None
    """Type of weights and cache; `auto` is that of the checkpoint. Absent: float32 on a CPU, else `auto`."""
    quantize: Literal["int8"] | None = None
    """8-bit weights of the linear layers, computed in `dtype`."""
    device: str | None = None
    """Device of torch. Absent: `cuda` where there is one, else `cpu`."""
    max_context: int | None = Field(None, ge=2)
    """Tokens of prompt and text together; the model's own limit if absent, and never more."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens of a text whose request gives no limit; what is left of the context if absent."""
    prefill_budget: int | None = Field(None, ge=1)
    """Tokens of prompts that one step reads. Absent: 128 on a CPU, else 2048."""
    prefix_tokens: int = Field(4096, ge=0)
    """Tokens of ended streams kept for prompts that begin alike while no stream runs; 0 reuses nothing."""
    share_prefixes: bool = False
    """Whether prompts of different principals reuse each other's prefixes, which shows in their times."""
    sampling: dict[str, float] = Field(default_factory=dict)
    """Sampling parameters of requests that give none; the model's generation_config if absent."""
    chat_template: str | None = None
    """Jinja template in place of the tokenizer's."""
