"""Execution of model code: in threads, on event loops, and in steps."""
