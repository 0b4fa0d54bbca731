"""The dialects of HTTP that the server speaks, one file each; `routing.py` lists those of the core."""
