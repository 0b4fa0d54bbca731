"""Keys for tests."""

from inferstream.plugins.keys.document import KeyEntry
from inferstream.plugins.keys.principal import KeyLimits, Principal
from inferstream.plugins.keys.secret import hash_key, new_key


def entry(id="abc", principal="alice", key=None, scopes=("infer",), models=("*",), expires=None, **limits):
    return KeyEntry(
        id=id,
        principal=principal,
        sha256=hash_key(key or new_key(id)).hex(),
        scopes=[*scopes],
        models=[*models],
        expires=expires,
        limits=KeyLimits(**limits),
    )


def principal(name="alice", **limits):
    return Principal(name, f"{name}-key", ["infer", "stream"], ["*"], None, KeyLimits(**limits))


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, seconds=1000.0, wall=1_800_000_000.0):
        self.seconds = seconds
        self.date = wall

    def __call__(self):
        return int(self.seconds * 1e9)

    def wall(self):
        return self.date

    def sleep(self, seconds):
        self.seconds += seconds
        self.date += seconds
