"""The distance that two numbers may have."""

from pydantic import BaseModel, ConfigDict, Field


class Tolerance(BaseModel):
    """How far two numbers may be apart: `absolute`, or `relative` times the expected one, whichever is more."""

    model_config = ConfigDict(extra="forbid")

    relative: float = Field(default=1e-5, ge=0, allow_inf_nan=False)
    absolute: float = Field(default=1e-8, ge=0, allow_inf_nan=False)
