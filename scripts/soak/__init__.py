"""Mixed load over every door, with faults, and what the server loses and keeps."""
