"""What a model author subclasses."""

import inferstream


class MLModel(inferstream.MLModel):
    """One servable model, which answers a request's `outputs` as it likes: MLServer refuses none."""

    selects_outputs = None
    for_mlserver = True


__all__ = ["MLModel"]
