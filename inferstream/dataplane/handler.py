"""The one contract of the serving path: awaiting a handler opens the reply to a call."""

from collections.abc import Awaitable, Callable

from .call import Call
from .reply import Reply

Handler = Callable[[Call], Awaitable[Reply]]
"""Ends when the first response is there; whatever fails earlier is raised and can still become a status."""
