"""Looks at what a pattern found and says whether it can be a secret: entropy, placeholders, hashes, code."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from reflectloop.secrets import assignment_score, wordlikeness


class Candidate(NamedTuple):
    before: bytes  # what stands before the match: a name may begin there
    lead: bytes  # what the pattern saw in front of the value: a name, an operator, quotes
    value: bytes
    after: bytes = b""  # what follows the value


def entropy(value: bytes) -> float:
    """Bits a character."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values()) if size else 0.0


_PLACEHOLDER = re.compile(
    rb"""(?ix)
    ^[\$%@]?[<\[{(].*[>\]})]$ | ^\$\w+$ | ^%\w*%$
    | \$\{[\w.:\[\]'"-]+\} | \$\(\w | \{\{\s*[\w.$-][^{}]*\}\} | <[a-z][\w .-]*> | %\(\w+\)s
    | ^(?:\*|x|\.|-|_|0|\#|\?)+$ | \*{4} | x{5} | \.{3} | ^(.)\1+$
    | example | placeholder | change.?me | changeit | redacted | dummy | insert | replace.?me | todo | fixme | sample
    | ^your | [-_]your | ^my[-_]? | ^some[-_] | here$ | ^not[-_]?a[-_]
    | ^(?:none|null|nil|undefined|unset|true|false|empty)$
    | 0123456789 | 123456789012 | abcdefghij | ^[a-z]*(?:test|fake|mock|invalid)[-_]
    """
)
_SEED_PLACEHOLDER = re.compile(
    rb"(?i)^(?:\$|\{|<|\[|%|\*|x{3,}|\.{3}|your[-_]|my[-_]?|example|changeme|redacted|none|null|unset|set\b|placeholder|dummy)"
)
_PROVIDER_PLACEHOLDER = re.compile(
    rb"(?i)example|x{8}|(.)\1{11}|\*{4}|\.{3}|abcdefghijklmnopqrstuvwxyz|your[-_]|placeholder|redacted"
)


_FILLER = re.compile(rb"(?s)[A-Za-z0-9].{1,23}?([A-Za-z0-9])\1{7,}\Z")


def is_filler(value: bytes) -> bool:
    """A format's own letters and then one letter over and over: `AKIA` and sixteen Z."""
    return len(set(value)) > 1 and _FILLER.match(value) is not None


def is_placeholder(value: bytes) -> bool:
    return _PLACEHOLDER.search(value) is not None


def _value(found: Candidate, least: float) -> bool:
    """A provider's format: only what is plainly no value is let go."""
    return not _PROVIDER_PLACEHOLDER.search(found.value) and (not least or entropy(found.value) >= least)


def _plain(found: Candidate, least: float) -> bool:
    return not _SEED_PLACEHOLDER.search(found.value) and entropy(found.value) >= least


def _assignment(found: Candidate, least: float) -> bool:
    if _BADGE.search(found.before) or _STAND_IN.match(found.value):
        return False
    score = assignment_score.score(found.before, found.lead, found.value, found.after)
    return score >= (least or assignment_score.THRESHOLD) and not is_placeholder(found.value)


def _credential(found: Candidate, least: float) -> bool:
    """A value whose place alone says that it is one: behind a scheme word, in an address, after an option."""
    value = found.value
    if is_placeholder(value) or value.lower() in _STAND_INS or entropy(value) < least:
        return False
    return bool(_NOT_WORDS.search(value)) or wordlikeness.wordiness(value) < 0.9  # noqa: PLR2004


def _address(found: Candidate, least: float) -> bool:
    """The password of an address. A plain word counts at a host that is no example's; the name once more never."""
    name = found.lead.rstrip(b":").rpartition(b"/")[2]
    if found.value.lower() == name.lower():
        return False
    return _credential(found, least) or (
        _is_host(found.after) and not is_placeholder(found.value) and entropy(found.value) >= least
    )


def _is_host(after: bytes) -> bool:
    """Whether an address names a host that can be: with a dot, no number, none of the words that examples use."""
    host = _HOST.match(after)
    return bool(host) and b"." in host[1] and not _EXAMPLE_HOST.search(host[1])  # type: ignore[index]


def _random(found: Candidate, least: float) -> bool:
    """A long value without a name: letters of both cases and digits, well mixed, no hash, no path."""
    value = found.value
    seen = assignment_score.shape(value)
    if seen.cases < 2 or seen.digits < len(value) // 12 or seen.strangeness < 5.2 or value.count(b"/") > 4:  # noqa: PLR2004
        return False
    if len(set(value)) == len(value) or _PUBLIC.search(found.before + found.lead) or _BOUNDARY.match(value):
        return False  # an alphabet; a digest of what is public; what stands between the parts of a form
    if _HASH.match(value) or is_placeholder(value):
        return False
    return entropy(value) >= least and wordlikeness.wordiness(value) < 0.4  # noqa: PLR2004


def _basic(found: Candidate, least: float) -> bool:
    """Return whether a value is a login in base64 whose password is no stand-in."""
    try:
        plain = base64.b64decode(found.value + b"=" * (-len(found.value) % 4), validate=True)
    except ValueError:
        return False
    _, colon, password = plain.partition(b":")
    if not colon or not plain.isascii() or entropy(found.value) < least:
        return False
    return bool(password) and password.lower() not in _STAND_INS


def _near(found: Candidate, least: float) -> bool:
    """Return whether a plain token near a provider's name can be one, and is no name of the code around it."""
    value = found.value
    if not _value(found, least):
        return False
    digits = len(re.findall(rb"[0-9]", value))
    if digits > _IN_NAMES or wordlikeness.strangeness(value) > _RANDOM:
        return True
    return wordlikeness.wordiness(value) < 0.5 and not _CAMEL.match(value)  # noqa: PLR2004


def _parameter(found: Candidate, least: float) -> bool:
    """Return whether the parameter of an address is surely a key: random, no word, not of a public badge."""
    value = found.value
    if len(value) < _PARAMETER or is_placeholder(value) or _STAND_IN.match(value) or _BADGE.search(found.lead):
        return False
    return entropy(value) >= least and assignment_score.weight_of_value(value, quoted=True) >= _SURE


def _netrc(found: Candidate, least: float) -> bool:
    """Return whether what stands where .netrc has a password is one, however plain a word it is."""
    return not is_placeholder(found.value) and found.value.lower() not in _STAND_INS and entropy(found.value) >= least


def _login(found: Candidate, least: float) -> bool:
    """`name:password`, of which either may be missing, and neither may stand for another."""
    name, _, password = found.value.replace(b'"', b"").replace(b"'", b"").partition(b":")
    told = password or name
    return not told.isdigit() and _credential(found._replace(value=told), least or 1.5)


_STAND_IN = re.compile(rb"(?i)(?:asdf|qwer|abc|xyz|sig|foo|bar|secret|password|passwd|pass|token|key)[-_]?\d{0,4}\Z")
_IN_NAMES = 2  # digits that a name of code may have
_RANDOM = 5.3  # bits a pair of letters that no name of code has
_CAMEL = re.compile(rb"[a-zA-Z]?\.?[a-z]+(?:[A-Z]+[a-z]+)+\d?\Z")
_PARAMETER = 8  # letters of a parameter that is surely a key
_SURE = 1.0  # weight of its value
_BADGE = re.compile(rb"(?i)badge|\.(?:svg|png|gif)\?")
_PUBLIC = re.compile(rb"(?i)(?:pin-?sha256|integrity|pub(?:lic)?_?-?key\w*|sha\d+|boundary|alphabet)\W{1,6}\Z")
_BOUNDARY = re.compile(rb"-{2,}\w*Boundary|nonce-")
_HOST = re.compile(rb"@([A-Za-z0-9.-]{1,100})")
_EXAMPLE_HOST = re.compile(
    rb"(?i)example|host|server|domain|proxy|foo|bar|acme|company|website|(?:^|\.)(?:test|invalid|local|internal)\Z|\A[\d.]+\Z"
)
_NOT_WORDS = re.compile(rb"[^A-Za-z_.-]")
_HASH = re.compile(rb"(?i)(?:sha\d{1,3}|md5|h1|blake\w{1,3})[-:=_]|[0-9a-f]+\Z|iVBOR|R0lGOD|/9j/|d09GM|AAAA")
_STAND_INS = frozenset(
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
}
