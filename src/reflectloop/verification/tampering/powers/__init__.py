"""Find new powers of sources, questions about tests, and code that nobody can read."""

from reflectloop.verification.tampering.powers.compare import look
from reflectloop.verification.tampering.powers.newer import newer_reader
from reflectloop.verification.tampering.powers.project import SurroundingFiles
from reflectloop.verification.tampering.powers.trees import patched_files, surrounding_files

__all__ = ["SurroundingFiles", "look", "newer_reader", "patched_files", "surrounding_files"]
