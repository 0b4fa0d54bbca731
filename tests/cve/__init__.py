"""Classes of vulnerabilities of model servers: a file for each row of the table in docs/contributing/hardening.md."""
