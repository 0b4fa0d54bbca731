"""Classes of vulnerabilities that servers of models had: a file for each. docs/security.md has them as a table."""
