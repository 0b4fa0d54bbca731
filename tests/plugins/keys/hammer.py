"""A process that uses a limit until there is no more: DESCRIPTOR PROGRESS INDEX COUNT WHAT LIMITS."""

import json
import mmap
import sys

from inferstream.plugins.keys.counters import Counters
from inferstream.plugins.keys.errors import LimitExceeded
from inferstream.plugins.keys.principal import KeyLimits, Principal
from inferstream.plugins.keys.quotas import Quotas

descriptor, progress, index, count = map(int, sys.argv[1:5])
what = sys.argv[5]
alice = Principal("alice", "abc", ["infer"], ["*"], None, KeyLimits(**json.loads(sys.argv[6])))
used = memoryview(mmap.mmap(progress, 8 * count)).cast("q")
quotas = Quotas(Counters(descriptor, index, count))
calls = []


def use_one():
    if what == "tokens":
        calls or calls.append(quotas.begin(alice, stream=True))
        calls[0].charge(1)
    elif what == "requests":
        quotas.begin(alice).end()
    else:
        calls.append(quotas.begin(alice))


print("ready", flush=True)
sys.stdin.readline()
while True:
    try:
        use_one()
    except LimitExceeded as error:
        if error.limit in alice.limits.__struct_fields__:
            break
    else:
        used[index] += 1
quotas.tick()
print("done", flush=True)
sys.stdin.readline()
