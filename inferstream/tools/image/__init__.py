"""`server dockerfile` and `server build`: the image of a model folder."""
