"""Settings of shared memory and sequences."""

from typing import Self

from pydantic import Field, model_validator

from inferstream.ext.settings import Section


class TritonSettings(Section):
    """The setting that enables shared memory."""

    shared_memory: bool | None = None
    """Allow clients to pass tensors in system shared memory. If null: only on loopback."""


class SequenceSettings(Section):
    """The field of `model-settings.json` for sequences."""

    sequence_idle: float | None = Field(default=None, gt=0)
    """Seconds without a request after which a sequence (`sequence_id`, `sequence_start`, `sequence_end`)
    ends. If set, the requests of a sequence run in one worker, one after another."""

    @model_validator(mode="after")
    def _keep_sequences_apart(self) -> Self:
        # Fields of the core settings, which this section joins.
        batch, cached = getattr(self, "max_batch_size", 0), getattr(self, "cache_enabled", False)
        if self.sequence_idle is not None and (batch > 1 or cached):
            raise ValueError(
                "a model with sequence_idle has neither max_batch_size above 1 nor cache_enabled: "
                "its answers depend on the requests before"
            )
        return self
