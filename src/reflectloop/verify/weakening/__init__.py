"""Find what a patch did to the tests, settings and files that judge it."""

from reflectloop.verify.weakening.looking import look

__all__ = ["look"]
