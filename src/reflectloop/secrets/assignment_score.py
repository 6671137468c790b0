"""Score an assignment `name = value`: how secret-like the name is, and how random the value is."""

from __future__ import annotations

import base64
import itertools
import re
from functools import lru_cache
from typing import NamedTuple

from reflectloop.secrets import wordlikeness
from reflectloop.system import patterns

THRESHOLD = 1.8  # chosen from the curve in docs/secrets.md

_LONGEST = 512
_MIN_WEAK_VALUE = 8  # characters; the least length of a value with a weak name
_STRONG_NAME = 1.0  # a name below this weight is weak
_NUMBER_PENALTY = 1.5  # of a value without letters
_DIGITS_OF_PASSWORD = range(8, 21)

_NAME_BEGINS = patterns.lazy(rb"[\w.$@-]*\Z")
_NAME_ENDS = patterns.lazy(rb"[^\w]*([\w.$-]*)")
_PASSWORDS = frozenset("password passwords passwd passphrase passcode pass pwd pw psw psswd passw".split())
_SECRETS = frozenset("secret secrets token tokens apikey credential credentials creds bearer jwt nonce salt".split())
_WEAK_NAMES = frozenset("key keys auth api session cookie sid signature login oauth authorization sign".split())
_SIGNATURES = frozenset("signature signatures sig sign".split())
_KEY_KINDS = frozenset(
    "api access private secret auth encryption signing client account service master app application license licence "
    "activation serial instrumentation deploy consumer shared storage admin subscription web server user hmac aes "
    "session webhook read write integration".split()
)
_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "apikey",
    "pwd",
    "accesskey",
    "secretkey",
    "privatekey",
)
# A name that ends with one of these describes a secret and does not contain one.
_DESCRIPTIVE_NAMES = frozenset(
    "sha md hash hashes digest checksum fingerprint name names file files filename path paths dir directory url "
    "uri urls endpoint host hostname port type types kind length len size count field fields label title text "
    "hint prompt message msg error errors format regex pattern policy rule rules validator validators validation "
    "version versions method timestamp expires expiry expiration ttl timeout date time algorithm alg hasher "
    "column attribute class page view form template help usage description provider manager service handler "
    "callback enabled required header headers scope scopes issuer audience realm index position alias store link "
    "links email mode status state schema table strategy backend backends middleware user username group role "
    "parameter param params parser reader writer model module package prefix suffix separator ref reference "
    "resolver generator factory controller helper request response result option options config settings test "
    "tests require requires requirement requirements extra extras alg algs algorithms alphabet boundary locale icon "
    "startswith endswith contains icontains iexact exact keyword keywords arn".split()
)
_BINARY = patterns.lazy(rb"[\x00-\x1f\x7f]|[\x80-\xbf]{4}|[\xc0-\xff]{2}")
_VARIABLE = patterns.lazy(rb"^[A-Z][A-Z0-9]*_[A-Z0-9_]+\Z")
_UPPER, _LOWER, _DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz", b"0123456789"
_PUBLIC = frozenset("public pub primary foreign partition sort cache row index unique composite natural public".split())


# A folder, as in `PWD`. A key in base64 may start with a slash too, but not with a word between two slashes.
_FOLDER = patterns.lazy(rb"/(?:[a-z]{2,16}|Users|Applications|Library|Volumes)(?:/[\w.@+~:-]*)+\Z")


class ValueShape(NamedTuple):
    """Counts of the characters of a value."""

    letters: int
    digits: int
    others: int
    cases: int
    strangeness: float
    switches: int  # changes between a letter and a digit


def shape(value: bytes) -> ValueShape:
    size = len(value)
    upper = size - len(value.translate(None, _UPPER))
    lower = size - len(value.translate(None, _LOWER))
    digits = size - len(value.translate(None, _DIGITS))
    return ValueShape(
        letters=upper + lower,
        digits=digits,
        others=size - upper - lower - digits,
        cases=(upper > 0) + (lower > 0),
        strangeness=wordlikeness.strangeness(value),
        switches=len(re.findall(rb"[A-Za-z][0-9]|[0-9][A-Za-z]", value)),
    )


def name_of(before: bytes, lead: bytes) -> bytes:
    """Return the whole name that a value is assigned to; the match may start inside the name."""
    begins, ends = _NAME_BEGINS.search(before), _NAME_ENDS.match(lead)
    return (begins[0] if begins else b"") + (ends[1] if ends else b"")


@lru_cache(maxsize=1024)
def weight_of_name(name: bytes) -> float:
    """Return the weight of a name, from 2 for a secret-like name down to -3 for a harmless one."""
    words = wordlikeness.split_words(name.rsplit(b".", 1)[-1]) or wordlikeness.split_words(name)
    if not words:
        return 0.0
    last, known = words[-1], set(words)
    if last in _DESCRIPTIVE_NAMES or known & _PUBLIC or (last in ("id", "ids") and not known & _PASSWORDS):
        return -3.0
    if known & _PASSWORDS or known & _SECRETS or any(word.endswith(_ENDINGS) for word in words):
        return 2.0
    if known & {"key", "keys"} and known & _KEY_KINDS:
        return 2.0
    return 0.5 if known & _WEAK_NAMES else 0.0


def weight_of_value(value: bytes, *, quoted: bool) -> float:
    """Return how random a value looks, before its words are considered."""
    weight = _randomness(value, shape(value))
    if not quoted:
        weight -= 0.7
        if _CODE.search(value):
            weight -= 3
    if _PATTERN.search(value) or _PATHLIKE.search(value) or _KNOWN.match(value):
        weight -= 3
    return weight


def _is_pin(name: bytes, value: bytes) -> bool:
    """Return True if the value of a password is a number that is neither counted up or down nor of few digits."""
    if len(value) not in _DIGITS_OF_PASSWORD or not value.isdigit() or len(set(value)) < len(value) // 2:
        return False
    steps = {(after - before) % 10 for before, after in itertools.pairwise(value)}
    return len(steps) > 2 and bool(_PASSWORDS & set(wordlikeness.split_words(name)[-1:]))  # noqa: PLR2004


def _is_joined_weakly(lead: bytes) -> bool:
    """Return True if only a comma, a parenthesis or a space separates the name and the value."""
    name = _NAME_ENDS.match(lead)
    return not _ASSIGNS.search(lead, name.end() if name else 0)


def _is_identifier(value: bytes, after: bytes) -> bool:
    """Return True if an unquoted value is a name in code: `password = arg2;`."""
    return after[:1] in (b";", b",", b")") and _IDENTIFIER.match(value) is not None


def _is_call(lead: bytes, value: bytes, after: bytes) -> bool:
    """Return True if a quoted value ends at another quote than it began with: token: `slugify('a b')`."""
    return after[:1] in (b'"', b"'", b"`") and after[:1] != lead[-1:] and _CALL.match(value) is not None


def _is_encoded_text(value: bytes) -> bool:
    """Return True if a value is base64 of ordinary text, such as words or `username:password`."""
    if len(value) % 4 or not _BASE64.match(value):
        return False
    text = base64.b64decode(value)
    if not _PRINTABLE.match(text):
        return False
    return wordlikeness.wordiness(text) > 0.7 and not any(letter in _DIGITS for letter in text)  # noqa: PLR2004


def _randomness(value: bytes, traits: ValueShape) -> float:
    size = len(value)
    weight = 0.0
    if traits.letters and traits.digits:
        weight += 1.0 + min(1.5, traits.switches * 0.3)
    if traits.letters >= 4:  # noqa: PLR2004
        weight += max(-1.5, min(2.0, (traits.strangeness - wordlikeness.STRANGE) * 1.5))
    if not traits.letters:
        weight -= _NUMBER_PENALTY
    weight += 0.5 * (size >= 16) + 0.5 * (size >= 24) - 0.7 * (size < 6)  # noqa: PLR2004
    if traits.cases == 2 and traits.digits:  # noqa: PLR2004
        weight += 0.5
    if traits.others and traits.others <= size // 3 and traits.digits:
        weight += 0.3
    return weight


_CODE = patterns.lazy(
    rb"^[A-Za-z_$][\w$]*(?:[.:>-]+[A-Za-z_]\w*)+$|^[A-Z][A-Z_]+$|^[A-Z][A-Za-z]+$|^[a-z]+(?:_[a-z]+)+$"
    rb"|^[a-z]+(?:[A-Z][a-z]+)+$|^_*[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$|^[$@&%*!]|[()*=]"
)
_IDENTIFIER = patterns.lazy(rb"(?:[a-z]{2,}|[a-z]+(?:_[a-z]+)+|[a-z]+(?:[A-Z][a-z]+)+)\d?\Z")
_CALL = patterns.lazy(rb"[A-Za-z_][A-Za-z_.]*\(\Z")
_NAME_OF_CODE = patterns.lazy(
    rb"_*[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z|[A-Z]{3,}\d?[A-Z]*\Z|[a-z]+\d?(?:[A-Z][a-z]+)*(?:[A-Z][a-z]+\d*)\Z|[0-9a-f]{7}\Z"
)
# Assigns a value to a name: an operator, `is`, or the end of an element.
_ASSIGNS = patterns.lazy(rb"[=:>]|<-|[ \t]is\b")
_BASE64 = patterns.lazy(rb"[A-Za-z0-9+/]{6,}={0,2}\Z")
_PRINTABLE = patterns.lazy(rb"[ -~]+\Z")
_UUID = patterns.lazy(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_HEX = patterns.lazy(rb"[0-9a-f]{16,}\Z|[0-9A-F]{16,}\Z")
# Names of algorithms and languages, and version requirements of packages.
_KNOWN = patterns.lazy(
    rb"(?i)(?:(?:sha|md|rs|es|ps|hs|ed|x|aes|3?des|rsa|dsa|ec(?:dh|dsa)?|hmac|pbkdf|pbes|pkcs|crc|blake|utf|iso|base|rc|secp|a)"
    rb"[-_/.]?\d{1,5}[a-z]?\d?(?:[-_/+](?:gcm|cbc|ctr|ecb|kw|oaep|hmac|rsa|hs|sha|es|[a-z]?\d{1,4})+)*"
    rb"|(?:aes|rsa|ec|hmac|ecdh|des|chacha20)[-_](?:gcm|cbc|ctr|ecb|kw|oaep|pss|es|hmac|poly1305)"
    rb"|[a-z]{2,3}[-_][a-z]{2,4}"
    rb"|[\w.\[\]-]+[ ]?(?:[<>=~^!]=|[<>^~])[ ]?v?\d[\w.,<>=*-]*|npm:\S+)\Z"
)
_PATTERN = patterns.lazy(rb"\[[^\]]{0,20}\w-\w|\(\?|[\])\w]\{\d+(?:,\d*)?\}")
_PATHLIKE = patterns.lazy(
    rb"^(?:https?|ftp|file)://|^\.{0,2}/|^~/|^[A-Za-z]:\\|/.*/|^\d+(?:\.\d+)+|\.(?:py|js|json|yml|yaml|html|txt|pem|crt|key|java|go|rb|php|css|png|ipynb|md|rst|ini|cfg|conf|toml|xml|sh|tsx?|jsx|vue|svg|jpe?g|gif|pdf|zip|gz|tar|log|csv|sql|lock|map|exe|rs|kt|swift|proto|whl)$|^[#.]|@[\w-]+\.(?:com|org|net|io)"
)


def score(before: bytes, lead: bytes, value: bytes, after: bytes = b"", threshold: float = THRESHOLD) -> float:
    """Return the weight of an assignment; at the threshold or above it is reported."""
    name = name_of(before, lead)
    name_weight = weight_of_name(name)
    if name_weight < 0 or len(value) > _LONGEST or _BINARY.search(value) or _FOLDER.match(value):
        return -3.0
    quoted = lead[-1:] in (b'"', b"'", b"`", b";")  # `;` ends the entity of a quote
    weight = name_weight + weight_of_value(value, quoted=quoted)
    if quoted and _is_pin(name, value):
        weight += _NUMBER_PENALTY
    if _VARIABLE.search(name):
        weight += 0.7  # an environment variable, whose value has no quotes
    if weight < threshold:
        return weight  # the checks below only lower it
    if (
        _is_no_value(name, name_weight, value)
        or (not quoted and _is_identifier(value, after))
        or _is_call(lead, value, after)
    ):
        return -3.0
    if _is_joined_weakly(lead) and (_NAME_OF_CODE.match(value) or not re.search(rb"\d", value)):
        return -3.0
    return weight - 2.5 * max(0.0, wordlikeness.wordiness(value) - 0.3)


def _is_no_value(name: bytes, name_weight: float, value: bytes) -> bool:
    """Return True if a value is short or a UUID under a weak name, a digest, or ordinary text in base64."""
    if name_weight < _STRONG_NAME and (len(value) < _MIN_WEAK_VALUE or _UUID.match(value)):
        return True
    if _HEX.match(value) and wordlikeness.split_words(name)[-1:] and wordlikeness.split_words(name)[-1] in _SIGNATURES:
        return True
    return _is_encoded_text(value)
