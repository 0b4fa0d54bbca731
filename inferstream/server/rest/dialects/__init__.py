"""The dialects of HTTP that the server speaks, one file each; `app.py` lists them."""
