"""Finds what a patch did to what judges it."""

from reflectloop.verify.weakening.looking import look

__all__ = ["look"]
