"""`server bench`: a load test of one model of a running server."""
