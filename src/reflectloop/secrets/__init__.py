"""Find secrets in streams and texts, and redact them before anything reaches the disk or the terminal."""

from reflectloop.secrets.detector import Detector, current, of, use
from reflectloop.secrets.scanner import Scanner, SecretFinding
from reflectloop.secrets.utf16 import narrow

__all__ = ["Detector", "Scanner", "SecretFinding", "current", "narrow", "of", "use"]
