"""The detector: the rules and exact values to look for, and the fingerprints to ignore.

Exact values are those of the caller's environment variables with secret-like names, in the forms that programs print.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from reflectloop.secrets import wordlikeness
from reflectloop.secrets.matcher import AHEAD, Exact, Matcher, ScanBlock
from reflectloop.secrets.rule import SecretRule
from reflectloop.secrets.scanner import Scanner, SecretFinding, fingerprint
from reflectloop.secrets.spans import clusters
from reflectloop.secrets.validators import is_placeholder
from reflectloop.system import patterns

_MIN_HIDDEN = 8  # characters; a shorter value occurs inside ordinary words
_ENVIRONMENT_RULE = "environment-value"
_MIN_LENGTH = 12
_STRONG = frozenset(
    "token tokens secret secrets password passwd passphrase pwd credential credentials creds apikey jwt".split()
)
_WEAK = frozenset("key keys pass auth cookie bearer dsn".split())
_ENDINGS = ("token", "secret", "password", "passwd", "apikey")
_NOT_SECRET = frozenset(
    "public pub fingerprint id name names file path dir url uri sock socket host port user type".split()
)
_FOLDER_NAMES = (["pwd"], ["oldpwd"], ["init", "pwd"])  # names of variables that contain a working directory
_HARMLESS = patterns.lazy(
    r"(?:[/~.]|[A-Za-z]:[\\/])[^\s:@]*(?::[/~.][^\s@]*)*\Z|https?://[^@\s]*\Z|[\d\s.,:-]*\Z|(.)\1*\Z"
)
_GPG_KEY = patterns.lazy(
    r"(?:[0-9A-F]{40}\s*)+\Z"
)  # container images of languages contain the public key that signed them


class SecretSettings(Protocol):
    """The settings `[secrets]`, which only `config` reads."""

    @property
    def rules(self) -> Path | None: ...
    @property
    def baseline(self) -> Path | None: ...


class Detector:
    """Creates scanners with one set of rules. Nothing is compiled before the first text is scanned."""

    def __init__(
        self,
        rules: Iterable[SecretRule],
        *,
        values: Iterable[bytes] = (),
        allowed: frozenset[str] = frozenset(),
        fillers: bool = False,
        identifiers: bool = False,
    ) -> None:
        """Without `identifiers`, rules of that grade are left out, as they are in every run."""
        self._exact = [form for value in values for form in _printed_forms(value)]
        self._rules = [rule for rule in rules if identifiers or rule.grade != "identifier"]
        self._fillers = fillers
        self._matcher = Matcher(self._rules, self._exact, fillers=fillers)
        self._allowed = allowed

    def scanner(self) -> Scanner:
        return Scanner(self._matcher, self._allowed)

    def scan(self, data: bytes) -> list[SecretFinding]:
        scanner = self.scanner()
        scanner.feed(data)
        scanner.finish()
        return scanner.findings

    def redact(self, text: str, known: Iterable[bytes] = ()) -> str:
        """Return the text with every secret redacted, and every `known` value even if no rule matches it."""
        raw = text.encode("utf-8", "surrogateescape")
        for value in known:
            raw = raw.replace(value, b"[REDACTED]")
        scanner = self.scanner()
        return (scanner.feed(raw) + scanner.finish()).decode("utf-8", "surrogateescape")

    def values(self, data: bytes) -> set[bytes]:
        """Return the secret values themselves, to search for them elsewhere. They must never be stored or shown."""
        result = self._matcher.find(ScanBlock(data, 0, len(data)))
        values = {data[cluster.chief.start : cluster.chief.end] for cluster in clusters(result.spans)}
        return {value for value in values if fingerprint(value) not in self._allowed}

    def hide(self, values: Iterable[bytes]) -> None:
        """Report these values as likely secrets from now on, even without the name that identified them."""
        self._exact += [
            Exact(value, "value-in-plan", "likely") for value in sorted(values) if len(value) >= _MIN_HIDDEN
        ]
        self._matcher = Matcher(self._rules, self._exact, fillers=self._fillers)


def detector_for(
    config: SecretSettings,
    root: Path,
    environment: Mapping[str, str] | None = None,
    *,
    fillers: bool = False,
    identifiers: bool = False,
) -> Detector:
    """Create a project's detector: built-in rules, the user's rules, the caller's own values, minus the baseline."""
    from reflectloop.secrets import rulefile  # noqa: PLC0415 - loads pydantic, and rule files are rare

    user_rules = rulefile.load_checked_rules(root / config.rules) if config.rules else ()
    from reflectloop.secrets import baseline  # noqa: PLC0415 - `diff` has no settings, and shows what was scanned before

    allowed = baseline.read_baseline(root / config.baseline) if config.baseline else frozenset()
    variables = os.environ if environment is None else environment
    return Detector(
        (*user_rules, *builtin_rules()),
        values=environment_values(variables),
        allowed=allowed,
        fillers=fillers,
        identifiers=identifiers,
    )


@cache
def default() -> Detector:
    """Return the detector with the built-in rules and the caller's own values."""
    return Detector(builtin_rules(), values=environment_values(os.environ))


_active: list[Detector] = []


def use_detector(detector: Detector) -> None:
    """Make `detector` the one that this process uses."""
    _active[:] = [detector]


def current_detector() -> Detector:
    """Return the detector of this process: the project's once its settings are read, else the default."""
    return _active[0] if _active else default()


def environment_values(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the values that must never be shown; the lines of a long value are separate values."""
    secrets = [
        line.strip().encode("utf-8", "surrogateescape")[:AHEAD]
        for name, value in environment.items()
        if (strength := _name_strength(name)) and not _GPG_KEY.match(value)
        for line in value.splitlines()
        if _is_secret(line.strip(), strength)
    ]
    return tuple(dict.fromkeys(secrets))


def _name_strength(name: str) -> int:
    """Return 2 for a name that means a secret, 1 for a name that may mean one, and 0 for any other."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    if not words or words[-1] in _NOT_SECRET or "public" in words or words in _FOLDER_NAMES:
        return 0
    if any(word in _STRONG or word.endswith(_ENDINGS) for word in words):
        return 2
    return int(any(word in _WEAK for word in words))


def _is_secret(value: str, strength: int) -> bool:
    raw = value.encode("utf-8", "surrogateescape")
    if len(value) < _MIN_LENGTH or _HARMLESS.match(value) or is_placeholder(raw):
        return False
    ordinary = value.isalpha() and wordlikeness.strangeness(raw) < wordlikeness.STRANGE
    like_words = ordinary or wordlikeness.wordiness(raw) >= 0.9  # noqa: PLR2004
    is_words = like_words and not any(letter.isdigit() for letter in value)
    # `AUTH_MODE=password-based-login` is not a secret; a passphrase of several words is.
    return not is_words or (strength == 2 and not value.isalpha())  # noqa: PLR2004


def _printed_forms(value: bytes) -> Iterator[Exact]:
    """Yield the value as it is, in base64 at each alignment, URL-encoded, in hex, and escaped for JSON."""
    texts = [value, *_base64(value), value.hex().encode(), value.hex().upper().encode()]
    escaped = quote(value, safe="").encode()
    texts += [escaped, re.sub(rb"%[0-9A-F]{2}", lambda match: match[0].lower(), escaped)]
    texts.append(value.replace(b"\\", b"\\\\").replace(b'"', b'\\"'))  # in JSON
    return (Exact(text, _ENVIRONMENT_RULE) for text in dict.fromkeys(texts) if len(text) >= _MIN_LENGTH)


def _base64(value: bytes) -> Iterator[bytes]:
    for offset, skipped in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * offset + value).rstrip(b"=")
        text = text[skipped : -1 if (offset + len(value)) % 3 else None]
        yield text
        yield text.replace(b"+", b"-").replace(b"/", b"_")


_FOLDER = Path(__file__).parent / "rules"
RULE_FILES = (_FOLDER / "general.toml", _FOLDER / "providers.toml")
_INDEX = _FOLDER / "index.json"


@cache
def builtin_rules() -> tuple[SecretRule, ...]:
    """Return the rules of the index that `make docs` writes, because parsing the rule files is slow."""
    return tuple(SecretRule(entry[0], tuple(entry[1]), *entry[2:]) for entry in json.loads(_INDEX.read_bytes()))


def builtin_index() -> str:
    """Return the content of the index: the rules of the files, without descriptions and samples."""
    from reflectloop.secrets import rulefile  # noqa: PLC0415 - loads pydantic, needed only to write the index

    lines = [json.dumps(entry.rule) for path in RULE_FILES for entry in rulefile.read_rule_file(path)]
    return "[\n" + ",\n".join(lines) + "\n]\n"
