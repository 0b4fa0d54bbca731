"""Messages that several tools share."""

NEEDS_KEY = "401: the server needs a valid key; send one with -H 'Authorization: Bearer KEY'"
"""The message for status 401."""
