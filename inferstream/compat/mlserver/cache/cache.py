"""What a cache of responses is."""


class ResponseCache:
    """Texts by key; the server's own cache is another, and switched on by `cache_enabled`."""

    async def insert(self, key: str, value: str) -> None:
        """Keep a text."""
        raise NotImplementedError

    async def lookup(self, key: str) -> str:
        """The text that is kept; empty when there is none."""
        raise NotImplementedError

    async def size(self) -> int:
        """How many texts are kept."""
        raise NotImplementedError


__all__ = ["ResponseCache"]
