"""Settings of the engine runtime, in `parameters.extra` of a model."""

import re
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from ..failover_settings import FailoverSettings

TARGET = re.compile(r"unix:\S+|[^\s:/]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")

CONNECT_SECONDS = 10.0
"""Seconds that an engine that is already running may take to answer."""


class EngineSettings(FailoverSettings):
    """The schema of `parameters.extra`."""

    model_config = ConfigDict(extra="forbid")

    protocol: Literal["vllm.grpc.engine", "vllm.inference", "openengine"] = "vllm.grpc.engine"
    """Protocol of the engine: of `vllm serve --grpc`, of vLLM's Rust front end, or OpenEngine."""
    target: list[str] = Field(min_length=1)
    """Address of the engine, `host:port` or `unix:/path`, or a list of addresses of engines with the same
    model."""
    command: list[str] = []
    """Command that starts the engine. If empty, the engine is already running."""
    environment: dict[str, str] = {}
    """Additional environment variables of the command."""
    start_timeout: float | None = Field(None, gt=0)
    """Seconds to wait for the engine at startup. If null: 10, or no limit except `model_load_timeout` with
    `command`."""
    connections: int = Field(4, ge=1, le=64)
    """Number of connections to each target."""
    tokenizer: str | None = None
    """Folder with `tokenizer.json`, or the file. If null: the engine sends its tokenizer."""
    chat_template: str | None = None
    """Jinja template to use instead of the template of the tokenizer."""
    lora: str | None = None
    """Name of a LoRA adapter that the engine has loaded, with another protocol than `vllm.grpc.engine`."""
    max_context: int | None = Field(None, ge=2)
    """Maximum number of tokens of prompt and completion together, up to the limit of the engine."""
    max_tokens: int | None = Field(None, ge=1)
    """Maximum number of completion tokens for requests without a limit. If null: the rest of the context."""
    sampling: dict[str, float] = Field(default_factory=dict)
    """Default sampling parameters, which override the defaults of the engine."""

    @field_validator("target", mode="before")
    @classmethod
    def _list_targets(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("target")
    @classmethod
    def _check_targets(cls, value: list[str]) -> list[str]:
        for target in value:
            if not TARGET.fullmatch(target):
                raise ValueError(f'"{target}" is neither host:port nor unix:/path')
        return value

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.protocol != "vllm.grpc.engine" and self.tokenizer is None:
            raise ValueError(
                f"engines with the protocol {self.protocol} do not send a tokenizer; set tokenizer"
            )
        if self.protocol == "vllm.grpc.engine" and self.lora is not None:
            raise ValueError(f"the protocol {self.protocol} has no LoRA adapters")
        if self.command and len(self.target) > 1:
            raise ValueError("a command starts one engine, so target has to be a single address")
        return self
