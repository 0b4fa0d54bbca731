"""The command line: `server` and `inferstream`."""
