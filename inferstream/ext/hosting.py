"""Names for plug-ins that embed the server or imitate another one."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..cli.hosted import HostedServer as HostedServer
    from ..cli.hosted import build_server as build_server
    from ..cli.main import app as command_line
    from ..cli.refusals import report_errors as report_errors
    from ..clients.failures import unreachable as server_unreachable
    from ..clients.stubs import MODULE as STUB_MODULE
    from ..clients.transport import Target as ClientTarget
    from ..clients.v2 import V2Client as V2Client
    from ..compat.finder import install as install_aliases
    from ..compat.table import parse_table as parse_table
    from ..concurrency.event_loop import new_event_loop as new_event_loop
    from ..repository.target import resolve_target as find_target
    from ..server.serve_target import resolve as resolve_served

__all__ = [
    "ClientTarget",
    "HostedServer",
    "STUB_MODULE",
    "V2Client",
    "build_server",
    "command_line",
    "find_target",
    "install_aliases",
    "new_event_loop",
    "parse_table",
    "report_errors",
    "resolve_served",
    "server_unreachable",
]

_NAMES = {
    "cli.hosted": "HostedServer build_server",
    "cli.main": "app=command_line",
    "cli.refusals": "report_errors",
    "clients.failures": "unreachable=server_unreachable",
    "clients.stubs": "MODULE=STUB_MODULE",
    "clients.transport": "Target=ClientTarget",
    "clients.v2": "V2Client",
    "compat.finder": "install=install_aliases",
    "compat.table": "parse_table",
    "concurrency.event_loop": "new_event_loop",
    "repository.target": "resolve_target=find_target",
    "server.serve_target": "resolve=resolve_served",
}

__getattr__ = export(__name__, _NAMES)
