"""Model calls: the caller, admission, pipeline stages, reply and cancellation."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..concurrency.channel import Channel as Channel
    from ..concurrency.pieces import pieces_of as iterate_in_thread
    from ..concurrency.scope import ClientLeft as ClientLeft
    from ..concurrency.scope import Scope as CancelScope
    from ..concurrency.tasks import Tasks as Tasks
    from ..concurrency.threads import Threads as Threads
    from ..context import request_id_var as request_id_var
    from ..dataplane.access import Action as Action
    from ..dataplane.admission import Admission as Admission
    from ..dataplane.call import Call as Call
    from ..dataplane.call import Handler as Handler
    from ..dataplane.call import Operation as Operation
    from ..dataplane.call import new_id as new_id
    from ..dataplane.call_values import CallValue as CallValue
    from ..dataplane.caller import Caller as Caller
    from ..dataplane.dataplane import Described as Described
    from ..dataplane.first_calls import NotLoaded as NotLoaded
    from ..dataplane.models import ServerModels as ServerModels
    from ..dataplane.peers import Peers as Peers
    from ..dataplane.reply import AtEnd as AtEnd
    from ..dataplane.reply import LastParameters as LastParameters
    from ..dataplane.reply import Reply as Reply
    from ..dataplane.reply import Watcher as Watcher
    from ..dataplane.server_parts import ServerParts as ServerParts
    from ..dataplane.stages.base import StageContext as StageContext
    from ..dataplane.stages.base import StagedModel as StagedModel
    from ..dataplane.turns import Turns as Turns
    from ..dataplane.workers.edge import WorkerEdge as WorkerEdge
    from ..processes.frames import Part as MessagePart
    from ..processes.frames import PeerQuestion as PeerQuestion
    from ..server.door import Door as Door
    from ..tokens import count_tokens as count_tokens

__all__ = [
    "Action",
    "Admission",
    "AtEnd",
    "Call",
    "CallValue",
    "Caller",
    "CancelScope",
    "Channel",
    "ClientLeft",
    "Described",
    "Door",
    "Handler",
    "LastParameters",
    "MessagePart",
    "NotLoaded",
    "Operation",
    "PeerQuestion",
    "Peers",
    "Reply",
    "ServerModels",
    "ServerParts",
    "StageContext",
    "StagedModel",
    "Tasks",
    "Threads",
    "Turns",
    "Watcher",
    "WorkerEdge",
    "count_tokens",
    "iterate_in_thread",
    "new_id",
    "request_id_var",
]

_NAMES = {
    "concurrency.channel": "Channel",
    "concurrency.pieces": "pieces_of=iterate_in_thread",
    "concurrency.scope": "ClientLeft Scope=CancelScope",
    "concurrency.tasks": "Tasks",
    "concurrency.threads": "Threads",
    "context": "request_id_var",
    "dataplane.access": "Action",
    "dataplane.admission": "Admission",
    "dataplane.call": "Call Handler Operation new_id",
    "dataplane.call_values": "CallValue",
    "dataplane.caller": "Caller",
    "dataplane.dataplane": "Described",
    "dataplane.first_calls": "NotLoaded",
    "dataplane.models": "ServerModels",
    "dataplane.peers": "Peers",
    "dataplane.reply": "AtEnd LastParameters Reply Watcher",
    "dataplane.server_parts": "ServerParts",
    "dataplane.stages.base": "StageContext StagedModel",
    "dataplane.turns": "Turns",
    "dataplane.workers.edge": "WorkerEdge",
    "processes.frames": "Part=MessagePart PeerQuestion",
    "server.door": "Door",
    "tokens": "count_tokens",
}

__getattr__ = export(__name__, _NAMES)
