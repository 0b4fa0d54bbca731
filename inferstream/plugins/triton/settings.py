"""Settings of shared memory, and of models that serve sequences."""

from typing import Self

from pydantic import Field, model_validator

from inferstream.ext.settings import Section


class TritonSettings(Section):
    """Which clients may have tensors in shared memory."""

    shared_memory: bool | None = None
    """Whether clients may have tensors in shared memory of this machine; if absent: on loopback alone."""


class SequenceSettings(Section):
    """The field of `model-settings.json` for sequences."""

    sequence_idle: float | None = Field(default=None, gt=0)
    """The model serves sequences (the parameters `sequence_id`, `sequence_start`, `sequence_end`): one runs in one
    worker, a request after the other, and ends after so many seconds without any."""

    @model_validator(mode="after")
    def _keep_sequences_apart(self) -> Self:
        # Fields of the server, which this section joins.
        batch, cached = getattr(self, "max_batch_size", 0), getattr(self, "cache_enabled", False)
        if self.sequence_idle is not None and (batch > 1 or cached):
            raise ValueError(
                "a model with sequence_idle has neither max_batch_size above 1 nor cache_enabled: "
                "its answers depend on the requests before"
            )
        return self
