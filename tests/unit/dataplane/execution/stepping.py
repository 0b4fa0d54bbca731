"""Models with steps whose every emission the test decides, and clients that read them."""

import asyncio
import threading
from collections.abc import Callable

from inferstream import Finished, ModelSettings, StepModel, request_context
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.pipeline import build_pipeline, build_shared_objects
from inferstream.errors import DeadlineExceeded, InferstreamError, ModelError
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.telemetry.stages import StepMeters
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput

REFUSE, FAIL, FINISH = "refuse", "fail", "finish"


def item(request_id: str, number: int) -> InferenceResponse:
    output = ResponseOutput(name=request_id, shape=[1], datatype="INT32", data=[number])
    return InferenceResponse(model_name="m", outputs=[output])


class State:
    """Says in each step so many items as its plan has next, then ends as the plan says."""

    def __init__(self, request: InferenceRequest) -> None:
        self.id = str(request.id)
        self.plan: list[int] = list(request.inputs[0].data.flat())
        self.end: str = request.parameters.end
        self.said = 0
        self.context = request_context()

    def advance(self) -> object:
        count = self.plan.pop(0) if self.plan else 0
        items = [item(self.id, self.said + i) for i in range(count)]
        self.said += count
        if self.plan:
            return [None, items[0] if items else None, items][min(count, 2)]
        if self.end == FAIL and not items:
            return ModelError(f"no more for {self.id}")
        return items if self.end == FAIL else Finished(*items)


class Scripted(StepModel):
    """Keeps count of its states; `step` is let go by `tick`, or never held once it is `free`."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self.alive: list[State] = []
        self.admitted = self.released = 0
        self.sizes: list[int] = []
        self.broken: list[Exception] = []
        self.answer: Callable[[list], object] = list
        self.busy = False
        self.free = False
        self.admits = True
        self.gate = asyncio.Semaphore(0)
        self.threads: set[int] = set()

    def tick(self) -> None:
        self.gate.release()

    def enter(self) -> None:
        """No two methods run at once, and never in two threads."""
        assert not self.busy
        self.busy = True
        self.threads.add(threading.get_ident())

    def begin(self, request: InferenceRequest) -> State:
        self.enter()
        self.busy = False
        if request.parameters.end == REFUSE:
            raise ModelError(f"refused {request.id}", status_code=409)
        state = State(request)
        self.alive.append(state)
        self.admitted += 1
        return state

    def advance(self, states: list[State]) -> object:
        self.sizes.append(len(states))
        assert len(set(map(id, states))) == len(states)
        assert all(state in self.alive for state in states)
        if self.broken:
            raise self.broken.pop()
        return self.answer([state.advance() for state in states])

    def finish(self, state: State) -> None:
        self.enter()
        self.alive.remove(state)
        self.released += 1
        self.busy = False


class Asynchronous(Scripted):
    async def admit(self, request: InferenceRequest) -> State:
        while not self.admits:
            await asyncio.sleep(0)
        return self.begin(request)

    async def step(self, states: list[State]) -> object:
        self.enter()
        try:
            if not self.free:
                await self.gate.acquire()
            return self.advance(states)
        finally:
            self.busy = False

    async def release(self, state: State) -> None:
        self.finish(state)


class Blocking(Scripted):
    def admit(self, request: InferenceRequest) -> State:
        return self.begin(request)

    def step(self, states: list[State]) -> object:
        self.enter()
        try:
            return self.advance(states)
        finally:
            self.busy = False

    def release(self, state: State) -> None:
        self.finish(state)


class ServedModel:
    """A model with the stages around it."""

    def __init__(self, implementation: type[Scripted], **settings) -> None:
        self.model = implementation(ModelSettings(implementation=implementation, name="m", **settings))
        self.local = Local(self.model)
        self.pipeline = build_pipeline(self.local, build_shared_objects(Settings(), Meters()))
        self.meters = self.pipeline.meters
        self.steps = self.meters.of(StepMeters)
        self.clients: list[Client] = []

    def ask(self, plan: list[int], end: str = FINISH, **options) -> "Client":
        self.clients.append(Client(self, f"r{len(self.clients)}", plan, end, **options))
        return self.clients[-1]

    async def tick(self, count: int = 1) -> None:
        """Let so many steps happen, one after another."""
        for _ in range(count):
            self.model.tick()
            await turns()

    async def finish(self) -> None:
        """Let everything go on until every client has its end, in a bounded number of turns of the loop."""
        self.model.free = True
        self.model.tick()
        for client in self.clients:
            client.resume()
        async with asyncio.timeout(20):
            await asyncio.gather(*(client.task for client in self.clients), return_exceptions=True)
        await self.settled()

    async def settled(self) -> None:
        """Nothing is kept of what is over."""
        async with asyncio.timeout(20):
            while self.local._steps._task is not None:
                await asyncio.sleep(0)
        assert self.model.alive == []
        assert self.model.released == self.model.admitted
        assert (self.steps.active, self.steps.waiting) == (0, 0)
        assert not self.pipeline.live.calls
        self.local._steps._caller.close()


class Client:
    """One request, and what came of it."""

    def __init__(
        self,
        served: ServedModel,
        name: str,
        plan: list[int],
        end: str,
        operation: Operation = Operation.STREAM,
        priority: int = 5,
    ) -> None:
        tensor = RequestInput(name="plan", shape=[len(plan)], datatype="INT32", data=list(plan))
        request = InferenceRequest(id=name, inputs=[tensor], parameters=Parameters(end=end))
        self.name, self.plan, self.planned_end = name, plan, end
        self.items: list[int] = []
        self.error: BaseException | None = None
        self.disturbed = False
        """Whether something happens to it that may keep it from its end."""
        self.reading = asyncio.Event()
        self.reading.set()
        self.call = Call(operation, "m", None, request, {}, priority=priority)
        self.task = asyncio.ensure_future(self._read(served))

    async def _read(self, served: ServedModel) -> None:
        try:
            async with await served.pipeline.handler(self.call) as reply:
                async for response in reply:
                    assert response.outputs[0].name == self.name
                    assert response.id == self.name
                    self.items += response.outputs[0].data.flat()
                    await self.reading.wait()
        except BaseException as error:
            self.error = error
            if not isinstance(error, InferstreamError):
                raise

    def pause(self) -> None:
        self.reading.clear()

    def resume(self) -> None:
        self.reading.set()

    def leave(self) -> None:
        self.disturbed = True
        self.task.cancel()

    def expire(self) -> None:
        self.disturbed = True
        self.call.end(DeadlineExceeded())

    def check(self) -> None:
        """It has its own items, in their order, and all of them unless it has exactly one error."""
        assert self.task.done()
        assert self.items == list(range(len(self.items)))
        if self.error is None and not self.task.cancelled():  # it may be cancelled before its first step
            assert self.planned_end == FINISH
            assert len(self.items) == sum(self.plan)
        else:
            assert self.disturbed or self.planned_end != FINISH
            assert len(self.items) <= sum(self.plan)


async def turns(count: int = 12) -> None:
    """Let everything that can happen now happen."""
    for _ in range(count):
        await asyncio.sleep(0)
