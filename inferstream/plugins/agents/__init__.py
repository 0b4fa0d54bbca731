"""Agents: JSON-RPC and MCP."""

from inferstream.ext import Extension

extension = Extension(
    "agents",
    requires=["page"],
    dialects={
        "jsonrpc": "inferstream.jsonrpc.dialect:JsonRpc",
        "jsonrpc-streams": "inferstream.jsonrpc.dialect:JsonRpcStreams",
        "mcp": "inferstream.jsonrpc.mcp:Mcp",
    },
)
