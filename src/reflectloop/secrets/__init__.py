"""Finds secrets in streams and texts, and takes them out before anything reaches disk or terminal."""

from reflectloop.secrets.detector import Detector, current, of, use
from reflectloop.secrets.scanner import Finding, Scanner
from reflectloop.secrets.wide import narrow

__all__ = ["Detector", "Finding", "Scanner", "current", "narrow", "of", "use"]
