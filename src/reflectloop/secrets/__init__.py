"""Finds secrets in streams and texts, and takes them out before anything reaches disk or terminal."""

from reflectloop.secrets.scanner import Finding, Scanner, redact, scan, values

__all__ = ["Finding", "Scanner", "redact", "scan", "values"]
