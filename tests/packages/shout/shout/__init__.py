"""One of each: a command, a dialect, a stage, a codec and a runtime."""
