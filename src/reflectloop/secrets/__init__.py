"""Find secrets in streams and texts, and redact them before anything reaches the disk or the terminal."""

from reflectloop.secrets.detector import Detector, current_detector, detector_for, use_detector
from reflectloop.secrets.scanner import Scanner, SecretFinding
from reflectloop.secrets.utf16 import as_plain_text

__all__ = ["Detector", "Scanner", "SecretFinding", "as_plain_text", "current_detector", "detector_for", "use_detector"]
