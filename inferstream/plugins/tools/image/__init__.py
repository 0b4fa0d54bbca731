"""`server dockerfile` and `server build`: container images of model folders."""
