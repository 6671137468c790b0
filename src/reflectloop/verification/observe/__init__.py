"""See the outcomes of tests as they happen, and notice code under test that changes the runner."""

from reflectloop.verification.observe.tamper_watch import TAMPERED, TamperWatch

__all__ = ["TAMPERED", "TamperWatch"]
