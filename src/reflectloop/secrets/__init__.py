"""Finds secrets in streams and texts, and takes them out before anything reaches disk or terminal."""

from reflectloop.secrets.detector import Detector, current, of, use
from reflectloop.secrets.scanner import Scanner, SecretFinding
from reflectloop.secrets.utf16 import narrow

__all__ = ["Detector", "Scanner", "SecretFinding", "current", "narrow", "of", "use"]
