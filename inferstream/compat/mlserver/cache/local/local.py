"""A cache in this process's memory."""

from ..cache import ResponseCache


class LocalCache(ResponseCache):
    """Keeps at most `size` texts, the latest."""

    def __init__(self, size: int = 100) -> None:
        self.cache: dict[str, str] = {}
        self.size_limit = size

    async def insert(self, key: str, value: str) -> None:
        self.cache[key] = value
        if len(self.cache) > self.size_limit:
            del self.cache[next(iter(self.cache))]

    async def lookup(self, key: str) -> str:
        return self.cache.get(key, "")

    async def size(self) -> int:
        return len(self.cache)


__all__ = ["LocalCache"]
