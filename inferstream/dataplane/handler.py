"""The contract of the serving path: a handler opens the reply to a call."""

from collections.abc import Awaitable, Callable

from .call import Call
from .reply import Reply

Handler = Callable[[Call], Awaitable[Reply]]
"""Returns when the first response exists. Earlier errors are raised, so that they can still become a status."""
