"""The stage: limits and counts the calls of each tenant."""

from collections.abc import AsyncIterator, Awaitable

from inferstream.codecs import StringCodec
from inferstream.errors import CodecError
from inferstream.ext.calls import Call, Handler, Reply, StageContext, StagedModel
from inferstream.types import InferenceRequest

from .facet import TextInput
from .usage import TenantUsage, Usage


class LimitCalls:
    def __init__(self, inner: Handler, usage: Usage, text: TextInput | None) -> None:
        self._inner = inner
        self._usage = usage
        self._text = text

    def __call__(self, call: Call) -> Awaitable[Reply]:
        tenant = self._usage.get(call.principal or "")
        if tenant is not None:
            tenant.start_call(self._count_characters(call.request))
            if call.more is not None:
                call.more = self._count_later(call.more, tenant)
        return self._inner(call)

    async def _count_later(
        self, requests: AsyncIterator[InferenceRequest], tenant: TenantUsage
    ) -> AsyncIterator[InferenceRequest]:
        async for request in requests:
            tenant.characters += self._count_characters(request)
            yield request

    def _count_characters(self, request: InferenceRequest) -> int:
        texts = [each for each in request.inputs if self._text and each.name == self._text.name]
        try:
            return sum(len(text or "") for each in texts for text in StringCodec.decode_input(each))
        except CodecError:
            return 0  # not text: the model refuses the request


def limit_calls(model: StagedModel, shared: StageContext) -> StagedModel:
    usage = shared.of(Usage)
    if not usage:
        return model  # no tenants, no overhead
    return model.around(LimitCalls(model.handler, usage, model.facet(TextInput)), form=None)
