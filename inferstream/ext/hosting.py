"""For plug-ins that embed the server or imitate another one."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..cli.hosted import HostedServer as HostedServer
    from ..cli.hosted import build_server as build_server
    from ..cli.refusals import told as report_errors
    from ..clients.transport import Target as ClientTarget
    from ..compat.finder import install as install_aliases
    from ..compat.table import parsed as parse_table
    from ..concurrency.event_loop import new_event_loop as new_event_loop
    from ..repository.target import targeted as find_target
    from ..server.served import resolve as resolve_served

__all__ = [
    "ClientTarget",
    "HostedServer",
    "build_server",
    "find_target",
    "install_aliases",
    "new_event_loop",
    "parse_table",
    "report_errors",
    "resolve_served",
]

_NAMES = {
    "cli.hosted": "HostedServer build_server",
    "cli.refusals": "told=report_errors",
    "clients.transport": "Target=ClientTarget",
    "compat.finder": "install=install_aliases",
    "compat.table": "parsed=parse_table",
    "concurrency.event_loop": "new_event_loop",
    "repository.target": "targeted=find_target",
    "server.served": "resolve=resolve_served",
}

__getattr__ = export(__name__, _NAMES)
