"""Decide if a match of a pattern can be a secret, by entropy, placeholders, hashes and code names."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from reflectloop.secrets import assignment_score, wordlikeness
from reflectloop.system import patterns


class Candidate(NamedTuple):
    before: bytes  # text before the match: a name may start there
    lead: bytes  # text of the match before the value: a name, an operator, quotes
    value: bytes
    after: bytes = b""  # text after the value


def entropy(value: bytes) -> float:
    """Return the entropy in bits per character."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values()) if size else 0.0


_PLACEHOLDER = patterns.lazy(
    rb"""(?ix)
    ^[\$%@]?[<\[{(].*[>\]})]$ | ^\$\w+$ | ^%\w*%$
    | \$\{[\w.:\[\]'"-]+\} | \$\(\w | \{\{\s*[\w.$-][^{}]*\}\} | <[a-z][\w .-]*> | %\(\w+\)s
    | ^(?:\*|x|\.|-|_|0|\#|\?)+$ | \*{4} | x{5} | \.{3} | ^(.)\1+$
    | example | placeholder | change.?me | changeit | redacted | dummy | insert | replace.?me | todo | fixme | sample
    | ^your | [-_]your | ^my(?:[-_]|pass|pw|secret|token|key|api|user|app|db|$) | ^some[-_] | here$ | ^not[-_]?a[-_]
    | ^(?:none|null|nil|undefined|unset|true|false|empty)$
    | 0123456789 | 123456789012 | abcdefghij | ^[a-z]*(?:test|fake|mock|invalid)[-_]
    """
)
_SEED_PLACEHOLDER = patterns.lazy(
    rb"(?i)^(?:\$|\{|<|\[|%|\*|x{3,}|\.{3}|your[-_]|my[-_]?|example|changeme|redacted|none|null|unset|set\b|placeholder|dummy)"
)
_PROVIDER_PLACEHOLDER = patterns.lazy(
    rb"(?i)example|x{8}|(.)\1{11}|\*{4}|\.{3}|abcdefghijklmnopqrstuvwxyz|your[-_]|placeholder|redacted"
)


_FILLER = patterns.lazy(rb"(?s)[A-Za-z0-9].{1,23}?([A-Za-z0-9])\1{7,}\Z")


def is_filler(value: bytes) -> bool:
    """Return True for a format's prefix and then one repeated letter, such as `AKIA` and sixteen Z."""
    return len(set(value)) > 1 and _FILLER.match(value) is not None


def is_placeholder(value: bytes) -> bool:
    return _PLACEHOLDER.search(value) is not None


def _value(candidate: Candidate, least: float) -> bool:
    """Accept a value in a provider's format unless it is plainly a placeholder."""
    return not _PROVIDER_PLACEHOLDER.search(candidate.value) and (not least or entropy(candidate.value) >= least)


def _plain(candidate: Candidate, least: float) -> bool:
    return not _SEED_PLACEHOLDER.search(candidate.value) and entropy(candidate.value) >= least


def _assignment(candidate: Candidate, least: float) -> bool:
    if _BADGE.search(candidate.before) or _PLACEHOLDER_WORD.match(candidate.value):
        return False
    score = assignment_score.score(candidate.before, candidate.lead, candidate.value, candidate.after)
    return score >= (least or assignment_score.THRESHOLD) and not is_placeholder(candidate.value)


def _credential(candidate: Candidate, least: float) -> bool:
    """Accept a value that its position marks as a credential: after a scheme, in an address, after an option."""
    value = candidate.value
    if is_placeholder(value) or value.lower() in _PLACEHOLDER_WORDS or entropy(value) < least:
        return False
    return bool(_NOT_WORDS.search(value)) or wordlikeness.wordiness(value) < 0.9  # noqa: PLR2004


def _address(candidate: Candidate, least: float) -> bool:
    """Accept the password of an address. A plain word counts only if the host is real; the user name never counts."""
    name = candidate.lead.rstrip(b":").rpartition(b"/")[2]
    if candidate.value.lower() == name.lower():
        return False
    return _credential(candidate, least) or (
        _is_host(candidate.after) and not is_placeholder(candidate.value) and entropy(candidate.value) >= least
    )


def _is_host(after: bytes) -> bool:
    """Return True if an address names a real host: with a dot, not a number, and no word that examples use."""
    host = _HOST.match(after)
    return bool(host) and b"." in host[1] and not _EXAMPLE_HOST.search(host[1])  # type: ignore[index]


def _random(candidate: Candidate, least: float) -> bool:
    """Accept a long value without a name: mixed letters and digits, and neither a hash nor a path."""
    value = candidate.value
    traits = assignment_score.shape(value)
    if traits.cases < 2 or traits.digits < len(value) // 12 or traits.strangeness < 5.2 or value.count(b"/") > 4:  # noqa: PLR2004
        return False
    if len(set(value)) == len(value) or _PUBLIC.search(candidate.before + candidate.lead) or _BOUNDARY.match(value):
        return False  # an alphabet, a digest of public data, or a multipart boundary
    if _HASH.match(value) or is_placeholder(value):
        return False
    return entropy(value) >= least and wordlikeness.wordiness(value) < 0.4  # noqa: PLR2004


def _basic(candidate: Candidate, least: float) -> bool:
    """Accept a login in base64 whose password is not a placeholder."""
    try:
        plain = base64.b64decode(candidate.value + b"=" * (-len(candidate.value) % 4), validate=True)
    except ValueError:
        return False
    _, colon, password = plain.partition(b":")
    if not colon or not plain.isascii() or entropy(candidate.value) < least:
        return False
    return bool(password) and password.lower() not in _PLACEHOLDER_WORDS


def _near(candidate: Candidate, least: float) -> bool:
    """Accept a plain token near a provider's name unless it is a name in code."""
    value = candidate.value
    if not _value(candidate, least):
        return False
    digits = len(re.findall(rb"[0-9]", value))
    if digits > _MAX_NAME_DIGITS or wordlikeness.strangeness(value) > _RANDOM_BITS:
        return True
    return wordlikeness.wordiness(value) < 0.5 and not _CAMEL.match(value)  # noqa: PLR2004


def _parameter(candidate: Candidate, least: float) -> bool:
    """Accept the parameter of an address if it is random, not a word, and not of a public badge."""
    value = candidate.value
    if (
        len(value) < _MIN_PARAMETER
        or is_placeholder(value)
        or _PLACEHOLDER_WORD.match(value)
        or _BADGE.search(candidate.lead)
    ):
        return False
    return entropy(value) >= least and assignment_score.weight_of_value(value, quoted=True) >= _CERTAIN_WEIGHT


def _netrc(candidate: Candidate, least: float) -> bool:
    """Accept a password in .netrc, even a plain word."""
    return (
        not is_placeholder(candidate.value)
        and candidate.value.lower() not in _PLACEHOLDER_WORDS
        and entropy(candidate.value) >= least
    )


def _login(candidate: Candidate, least: float) -> bool:
    """Accept `name:password`, of which either may be missing, unless it is a placeholder."""
    name, _, password = candidate.value.replace(b'"', b"").replace(b"'", b"").partition(b":")
    secret = password or name
    return not secret.isdigit() and _credential(candidate._replace(value=secret), least or 1.5)


def _identifier(candidate: Candidate, least: float) -> bool:
    """Accept a UUID that is drawn, not counted up or taken from a manual, and an address that is public."""
    import ipaddress  # noqa: PLC0415 - only `scan --identifiers` needs it

    value = candidate.value.lower()
    if b"." in value:
        parts = value.decode().split(".")
        text = ".".join(part.lstrip("0") or "0" for part in parts)
        return all(int(part) <= _BYTE for part in parts) and ipaddress.ip_address(text).is_global
    return value not in _EXAMPLE_UUIDS and entropy(value) >= least


_BYTE = 255
_EXAMPLE_UUIDS = frozenset((b"550e8400-e29b-41d4-a716-446655440000", b"6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
_PLACEHOLDER_WORD = patterns.lazy(
    rb"(?i)(?:asdf|qwer|abc|xyz|sig|foo|bar|secret|password|passwd|pass|token|key)[-_]?\d{0,4}\Z"
)
_MAX_NAME_DIGITS = 2  # digits in a name of code, at most
_RANDOM_BITS = 5.3  # bits per pair of letters; names in code have fewer
_CAMEL = patterns.lazy(rb"[a-zA-Z]?\.?[a-z]+(?:[A-Z]+[a-z]+)+\d?\Z")
_MIN_PARAMETER = 8  # characters of a parameter that is certainly a key
_CERTAIN_WEIGHT = 1.0  # least weight of its value
_BADGE = patterns.lazy(rb"(?i)badge|\.(?:svg|png|gif)\?")
_PUBLIC = patterns.lazy(rb"(?i)(?:pin-?sha256|integrity|pub(?:lic)?_?-?key\w*|sha\d+|boundary|alphabet)\W{1,6}\Z")
_BOUNDARY = patterns.lazy(rb"-{2,}\w*Boundary|nonce-")
_HOST = patterns.lazy(rb"@([A-Za-z0-9.-]{1,100})")
_EXAMPLE_HOST = patterns.lazy(
    rb"(?i)example|host|server|domain|proxy|foo|bar|acme|company|website|(?:^|\.)(?:test|invalid|local|internal)\Z|\A[\d.]+\Z"
)
_NOT_WORDS = patterns.lazy(rb"[^A-Za-z_.-]")
_HASH = patterns.lazy(rb"(?i)(?:sha\d{1,3}|md5|h1|blake\w{1,3})[-:=_]|[0-9a-f]+\Z|iVBOR|R0lGOD|/9j/|d09GM|AAAA")
_PLACEHOLDER_WORDS = frozenset(
    b"pass password passwd pw pwd secret token key user username test testing admin root guest foo bar baz qux "
    b"changeit mypassword mypass userpass abc abc123 123 1234 12345 123456 pass1 pass2 password1 password123 string "
    b"value".split()
)

CHECKS: dict[str, Callable[[Candidate, float], bool]] = {
    "value": _value,
    "plain": _plain,
    "assignment": _assignment,
    "credential": _credential,
    "basic": _basic,
    "login": _login,
    "address": _address,
    "random": _random,
    "near": _near,
    "parameter": _parameter,
    "netrc": _netrc,
    "identifier": _identifier,
}
