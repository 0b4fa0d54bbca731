"""The inference path: admission, calls, replies and the pipeline of stages around each model."""
