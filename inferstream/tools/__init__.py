"""Tools of the command line that the server does not need: each is a command that joins by an entry point."""
