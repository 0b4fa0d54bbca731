"""The tolerance of numeric comparisons."""

from pydantic import BaseModel, ConfigDict, Field


class Tolerance(BaseModel):
    """The allowed difference between two numbers: `absolute` plus `relative` times the expected number."""

    model_config = ConfigDict(extra="forbid")

    relative: float = Field(default=1e-5, ge=0, allow_inf_nan=False)
    absolute: float = Field(default=1e-8, ge=0, allow_inf_nan=False)
