"""REST, server-sent events and WebSockets."""
