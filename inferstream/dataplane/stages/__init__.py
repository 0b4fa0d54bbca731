"""Pipeline stages. Each is a handler that wraps another handler, for single responses and streams alike."""
