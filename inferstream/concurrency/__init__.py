"""Event loops, threads and tasks, and how each is ended."""
