"""Messages that several tools show."""

NEEDS_KEY = "401: the server needs a valid key; send one with -H 'Authorization: Bearer KEY'"
"""The reason for a status 401."""
