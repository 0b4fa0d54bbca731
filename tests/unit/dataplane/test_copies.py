"""Copies of calls for a shadow: what they inherit, and who is charged with them."""

from inferstream.dataplane.call import CALL_OF_MODEL, Call, Operation
from inferstream.dataplane.call_values import inherit_values
from inferstream.plugins.keys.shares import Shares, find_share
from inferstream.types import InferenceRequest
from tests.plugins.traffic.test_shadow_stage import Trial, equal
from tests.plugins.traffic.test_shadow_stage import streaming as streaming


async def test_nested_calls_of_a_copy_are_not_copied() -> None:
    trial = Trial(equal)
    await trial.call()
    await trial.settled()
    [copy] = trial.copies
    inner = Call(Operation.INFER, "m", "1", InferenceRequest(inputs=[]), {}, dialect=CALL_OF_MODEL)
    inherit_values(inner, copy)
    assert inner.dialect == "shadow"
    async with await trial.stage(inner):
        pass
    await trial.settled()
    assert trial.copies == [copy]


async def test_copies_share_a_principal_charged_for_tokens() -> None:
    trial, shares = Trial(equal, Shares), Shares()
    await trial.call(Operation.STREAM)
    [running] = trial.shadows._calls
    find_share(running).enter(shares, 5)
    find_share(running).begin()
    await trial.settled()
    assert find_share(running).name == "\0shadow"
    assert shares.flow("\0shadow", 5).used == 2
