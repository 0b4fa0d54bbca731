"""Settings of shared memory."""

from inferstream.ext.settings import Section


class TritonSettings(Section):
    """Which clients may have tensors in shared memory."""

    shared_memory: bool | None = None
    """Whether clients may have tensors in shared memory of this machine; if absent: on loopback alone."""
