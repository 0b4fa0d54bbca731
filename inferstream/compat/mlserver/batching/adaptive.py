"""What gathers requests."""

from inferstream.compat.replaced import Replaced


class AdaptiveBatcher(Replaced):
    """Gathers the requests of a model."""

    instead = "the server batches where max_batch_size and max_batch_time ask for it"


__all__ = ["AdaptiveBatcher"]
