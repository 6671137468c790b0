"""Failure records, signatures, diagnosis rules, retries, circuit breakers and routing of failures."""
