"""Find what a patch did to the tests, settings and files that judge it."""

from reflectloop.verification.tampering.inspect import look

__all__ = ["look"]
