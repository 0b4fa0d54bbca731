"""Running a model in worker processes."""
