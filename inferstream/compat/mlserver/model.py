"""What a model author subclasses."""

import inferstream


class MLModel(inferstream.MLModel):
    """One servable model, which answers a request's `outputs` as it likes: MLServer refuses none."""

    selects_outputs = None


__all__ = ["MLModel"]
