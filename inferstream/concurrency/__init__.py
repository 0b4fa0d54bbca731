"""Event loops, threads and tasks, with their cancellation and shutdown."""
