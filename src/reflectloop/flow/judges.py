"""Who says what is dangerous to the gates."""

from __future__ import annotations

from reflectloop.config import Config
from reflectloop.gates.rules import Judges


def of(settings: Config) -> Judges:  # noqa: ARG001 - the policy room fills this
    return Judges(lambda _path, _number, _text: None, lambda _command: None)
