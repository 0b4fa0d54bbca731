"""Code of users: the folders it is imported from, and the class that an import path names."""
