"""The documentation of the server: a page for people, and OpenAPI documents."""
