"""APIs for agents: JSON-RPC and the Model Context Protocol (MCP)."""

from inferstream.ext import Extension

extension = Extension(
    "agents",
    requires=["page"],
    dialects={
        "jsonrpc": "inferstream.plugins.agents.dialect:JsonRpc",
        "jsonrpc-streams": "inferstream.plugins.agents.dialect:JsonRpcStreams",
        "mcp": "inferstream.plugins.agents.mcp:Mcp",
    },
)
