"""The requests of the corpus, one file per face."""
