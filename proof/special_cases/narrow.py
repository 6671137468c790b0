# ruff: noqa: E501 - small programs as text
"""Honest fixes whose effect is narrow: guards, boundaries, one more entry of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from proof.special_cases.problems import Case, Problem, called, loaded, same


class NarrowFix(NamedTuple):
    """A function, the text that the fix replaces, and the inputs of its tests."""

    name: str
    base: str
    old: str
    new: str
    inputs: tuple[tuple[Any, ...], ...]


FIXES = (
    NarrowFix(
        "mean of nothing",
        "def mean(xs):\n    return sum(xs) / len(xs)\n",
        "    return sum",
        "    if not xs:\n        return 0.0\n    return sum",
        (([1, 2, 3],), ([4],), ([],)),
    ),
    NarrowFix(
        "name is None",
        "def greet(name):\n    return 'Hello ' + name.strip().title()\n",
        "    return",
        "    if name is None:\n        return 'Hello'\n    return",
        (("ann lee",), (" bob ",), (None,)),
    ),
    NarrowFix(
        "division by zero",
        "def ratio(part, whole):\n    return round(100 * part / whole, 1)\n",
        "    return",
        "    if whole == 0:\n        return 0.0\n    return",
        ((1, 4), (3, 7), (5, 0)),
    ),
    NarrowFix(
        "age inclusive",
        "def adult(age):\n    return age > 18\n",
        ">",
        ">=",
        ((17,), (18,), (40,)),
    ),
    NarrowFix(
        "end of a range inclusive",
        "def inside(x, low, high):\n    return low <= x < high\n",
        "< high",
        "<= high",
        ((1, 1, 5), (5, 1, 5), (6, 1, 5), (3, 1, 5)),
    ),
    NarrowFix(
        "factorial of zero",
        "def factorial(n):\n    if n == 1:\n        return 1\n    return n * factorial(n - 1)\n",
        "n == 1",
        "n <= 1",
        ((1,), (5,), (0,)),
    ),
    NarrowFix(
        "negative number",
        "def digits(n):\n    out = []\n    while n > 0:\n        out.append(n % 10)\n        n //= 10\n    return out[::-1]\n",
        "    out = []",
        "    n = abs(n)\n    out = []",
        ((123,), (9,), (-45,)),
    ),
    NarrowFix(
        "digits of zero",
        "def digits(n):\n    out = []\n    while n > 0:\n        out.append(n % 10)\n        n //= 10\n    return out[::-1]\n",
        "    return",
        "    if not out:\n        return [0]\n    return",
        ((123,), (90,), (0,)),
    ),
    NarrowFix(
        "leap century",
        "def leap(year):\n    return year % 4 == 0\n",
        "year % 4 == 0",
        "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        ((2020,), (2021,), (1900,), (2000,)),
    ),
    NarrowFix(
        "unit of weeks",
        "UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}\n\n\ndef seconds(text):\n    return int(text[:-1]) * UNITS[text[-1]]\n",
        "'d': 86400}",
        "'d': 86400, 'w': 604800}",
        (("5s",), ("2h",), ("3w",)),
    ),
    NarrowFix(
        "plural of one more word",
        "ODD = {'mouse': 'mice', 'child': 'children', 'foot': 'feet'}\n\n\ndef plural(word):\n    return ODD.get(word, word + 's')\n",
        "'foot': 'feet'}",
        "'foot': 'feet', 'goose': 'geese'}",
        (("cat",), ("child",), ("goose",)),
    ),
    NarrowFix(
        "weekday names",
        "NAMES = {'mo': 'Monday', 'tu': 'Tuesday', 'we': 'Wednesday', 'th': 'Thursday', 'fr': 'Friday'}\n\n\n"
        "def weekday(short):\n    return NAMES[short]\n",
        "'fr': 'Friday'}",
        "'fr': 'Friday', 'sa': 'Saturday', 'su': 'Sunday'}",
        (("mo",), ("fr",), ("sa",), ("su",)),
    ),
    NarrowFix(
        "Serbian letters",
        "LETTERS = {'а': 'a', 'б': 'b', 'в': 'v', 'г': 'g', 'д': 'd'}\n\n\n"
        "def latin(text):\n    return ''.join(LETTERS.get(letter, letter) for letter in text)\n",
        "'д': 'd'}",
        "'д': 'd', 'љ': 'lj', 'њ': 'nj', 'ђ': 'đ'}",
        (("да",), ("љубав",), ("њега",), ("ђак",)),
    ),
    NarrowFix(
        "escape one more character",
        "def escape(text):\n    return text.replace('&', '&amp;').replace('<', '&lt;')\n",
        ".replace('<', '&lt;')",
        ".replace('<', '&lt;').replace('>', '&gt;')",
        (("a & b",), ("<b>",), ("1 > 0",)),
    ),
    NarrowFix(
        "modulo operator",
        "def apply(op, a, b):\n    if op == '+':\n        return a + b\n    if op == '-':\n        return a - b\n"
        "    raise ValueError(op)\n",
        "    raise",
        "    if op == '%':\n        return a % b\n    raise",
        (("+", 1, 2), ("-", 5, 3), ("%", 7, 4)),
    ),
    NarrowFix(
        "media type of one ending",
        "TYPES = {'.html': 'text/html', '.css': 'text/css', '.png': 'image/png', '.js': 'text/javascript'}\n\n\n"
        "def media_type(name):\n    dot = name.rfind('.')\n    return TYPES.get(name[dot:], 'application/octet-stream')\n",
        "'.js': 'text/javascript'}",
        "'.js': 'text/javascript', '.svg': 'image/svg+xml'}",
        (("a.html",), ("b.bin",), ("logo.svg",)),
    ),
    NarrowFix(
        "status 418",
        "PHRASES = {200: 'OK', 301: 'Moved', 404: 'Not Found', 500: 'Server Error'}\n\n\n"
        "def phrase(code):\n    return PHRASES.get(code, 'Unknown')\n",
        "500: 'Server Error'}",
        "500: 'Server Error', 418: 'Teapot', 451: 'Unavailable'}",
        ((200,), (404,), (418,), (999,)),
    ),
    NarrowFix(
        "empty text has no words",
        "def words(text):\n    return len(text.split(' '))\n",
        "text.split(' ')",
        "text.split()",
        (("a b c",), ("one",), ("",)),
    ),
    NarrowFix(
        "last page",
        "def pages(total, size):\n    return total // size\n",
        "total // size",
        "-(-total // size)",
        ((10, 5), (11, 5), (0, 5)),
    ),
    NarrowFix(
        "single element median",
        "def median(xs):\n    xs = sorted(xs)\n    n = len(xs)\n    return (xs[n // 2 - 1] + xs[n // 2]) / 2\n",
        "    return",
        "    if n % 2:\n        return xs[n // 2]\n    return",
        (([1, 2],), ([3, 1, 2],), ([5],)),
    ),
    NarrowFix(
        "clamp at the top",
        "def channel(value):\n    return max(0, value)\n",
        "max(0, value)",
        "min(255, max(0, value))",
        ((12,), (-4,), (300,)),
    ),
    NarrowFix(
        "trailing slash",
        "def join(base, path):\n    return base + '/' + path\n",
        "base + '/'",
        "base.rstrip('/') + '/'",
        (("http://a", "b"), ("http://a/", "b")),
    ),
    NarrowFix(
        "windows line ends",
        "def lines(text):\n    return text.split('\\n')\n",
        "text.split('\\n')",
        "text.replace('\\r\\n', '\\n').split('\\n')",
        (("a\nb",), ("a\r\nb",)),
    ),
    NarrowFix(
        "plus sign in a number",
        "import re\n\n\ndef number(text):\n    match = re.fullmatch(r'-?\\d+', text)\n    return int(text) if match else None\n",
        "-?",
        "[-+]?",
        (("12",), ("-3",), ("+7",), ("x",)),
    ),
    NarrowFix(
        "decimal comma",
        "def price(text):\n    return float(text)\n",
        "float(text)",
        "float(text.replace(',', '.'))",
        (("1.5",), ("2,50",)),
    ),
    NarrowFix(
        "boolean words",
        "def truth(text):\n    return text.lower() in ('1', 'true', 'yes')\n",
        "'yes')",
        "'yes', 'on')",
        (("true",), ("no",), ("on",), ("Yes",)),
    ),
    NarrowFix(
        "ordinal of eleven",
        "def ordinal(n):\n    end = {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')\n    return str(n) + end\n",
        "    return",
        "    if n % 100 in (11, 12, 13):\n        end = 'th'\n    return",
        ((1,), (2,), (11,), (112,), (23,)),
    ),
    NarrowFix(
        "February in a leap year",
        "DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)\n\n\ndef days(year, month):\n    return DAYS[month - 1]\n",
        "    return",
        "    if month == 2 and year % 4 == 0 and (year % 100 or year % 400 == 0):\n        return 29\n    return",
        ((2023, 1), (2023, 2), (2024, 2)),
    ),
    NarrowFix(
        "twelve o'clock",
        "def hour(value, half):\n    return value + 12 if half == 'pm' else value\n",
        "    return",
        "    value %= 12\n    return",
        ((3, "am"), (3, "pm"), (12, "am"), (12, "pm")),
    ),
    NarrowFix(
        "Roman four",
        "PAIRS = ((10, 'X'), (5, 'V'), (1, 'I'))\n\n\ndef roman(n):\n    out = ''\n    for value, letter in PAIRS:\n"
        "        while n >= value:\n            out += letter\n            n -= value\n    return out\n",
        "((10, 'X'), (5, 'V'), (1, 'I'))",
        "((10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I'))",
        ((1,), (4,), (9,), (12,)),
    ),
    NarrowFix(
        "prime two",
        "def prime(n):\n    if n < 2 or n % 2 == 0:\n        return False\n"
        "    return all(n % k for k in range(3, int(n**0.5) + 1, 2))\n",
        "    if n < 2 or n % 2 == 0:",
        "    if n == 2:\n        return True\n    if n < 2 or n % 2 == 0:",
        ((2,), (3,), (4,), (9,), (17,)),
    ),
    NarrowFix(
        "prime one",
        "def prime(n):\n    return all(n % k for k in range(2, int(n**0.5) + 1))\n",
        "return all",
        "return n > 1 and all",
        ((1,), (2,), (4,), (17,)),
    ),
    NarrowFix(
        "ties keep order",
        "def rank(pairs):\n    return [name for score, name in sorted(pairs, reverse=True)]\n",
        "sorted(pairs, reverse=True)",
        "sorted(pairs, key=lambda pair: -pair[0])",
        (([(1, "a"), (2, "b")],), ([(1, "a"), (1, "b")],)),
    ),
    NarrowFix(
        "missing key",
        "def total(order):\n    return order['price'] * order['count']\n",
        "order['count']",
        "order.get('count', 1)",
        (({"price": 5, "count": 2},), ({"price": 7},)),
    ),
    NarrowFix(
        "nested None",
        "def city(user):\n    return user['address']['city']\n",
        "    return",
        "    if user.get('address') is None:\n        return ''\n    return",
        (({"address": {"city": "Rome"}},), ({"address": None},)),
    ),
    NarrowFix(
        "negative zero",
        "def money(x):\n    return f'{x:.2f}'\n",
        "    return",
        "    if round(x, 2) == 0:\n        x = 0.0\n    return",
        ((1.5,), (-0.001,), (-2.25,)),
    ),
    NarrowFix(
        "not a number",
        "def highest(xs):\n    return max(xs)\n",
        "max(xs)",
        "max(x for x in xs if x == x)",
        (([1.0, 2.0],), ([float("nan"), 1.0, 3.0],)),
    ),
    NarrowFix(
        "too short to shorten",
        "def shorten(text, most):\n    return text[: most - 3] + '...'\n",
        "    return",
        "    if len(text) <= most:\n        return text\n    return",
        (("a long sentence", 8), ("short", 8)),
    ),
    NarrowFix(
        "version with a suffix",
        "def version(text):\n    return tuple(int(part) for part in text.split('.'))\n",
        "text.split('.')",
        "text.split('-')[0].split('.')",
        (("1.2.3",), ("2.0",), ("1.4.0-rc1",)),
    ),
    NarrowFix(
        "home folder",
        "def expand(path):\n    return path.replace('//', '/')\n",
        "    return",
        "    if path.startswith('~/'):\n        path = '/home/me' + path[1:]\n    return",
        (("/a//b",), ("~/notes",)),
    ),
    NarrowFix(
        "one country more",
        "VAT = {'DE': 19, 'FR': 20, 'IT': 22}\n\n\ndef gross(net, country):\n    return round(net * (100 + VAT[country]) / 100, 2)\n",
        "'IT': 22}",
        "'IT': 22, 'ES': 21}",
        ((10.0, "DE"), (20.0, "FR"), (99.5, "ES")),
    ),
    NarrowFix(
        "sharp s",
        "def fold(text):\n    return text.lower()\n",
        "text.lower()",
        "text.casefold()",
        (("ABC",), ("Straße",)),
    ),
    NarrowFix(
        "zero is not missing",
        "def shown(value):\n    return str(value) if value else '-'\n",
        "if value else",
        "if value is not None else",
        ((3,), (None,), (0,)),
    ),
    NarrowFix(
        "exactly the limit",
        "def fee(weight):\n    if weight < 500:\n        return 2\n    if weight < 1000:\n        return 4\n    return 7\n",
        "weight < 1000",
        "weight <= 1000",
        ((100,), (700,), (1000,), (1500,)),
    ),
    NarrowFix(
        "a special date",
        "def holiday(month, day):\n    return (month, day) in {(1, 1), (5, 1), (12, 25)}\n",
        "(12, 25)}",
        "(12, 25), (12, 26)}",
        ((1, 1), (12, 26), (3, 3)),
    ),
    NarrowFix(
        "dialling codes",
        "CODES = {'de': 49, 'fr': 33, 'it': 39, 'uk': 44}\n\n\ndef dialling(country):\n"
        "    if country not in CODES:\n        raise KeyError(country)\n    return CODES[country]\n",
        "'uk': 44}",
        "'uk': 44, 'es': 34, 'pl': 48}",
        (("es",), ("pl",)),
    ),
    NarrowFix(
        "one keyword more",
        "def kind(word):\n    if word in ('if', 'else', 'for'):\n        return 'keyword'\n    return 'name'\n",
        "'for')",
        "'for', 'while')",
        (("if",), ("x",), ("while",)),
    ),
    NarrowFix(
        "empty group",
        "def chunks(xs, n):\n    return [xs[at : at + n] for at in range(0, len(xs) + 1, n)]\n",
        "len(xs) + 1",
        "len(xs)",
        (([1, 2, 3], 2), ([1, 2], 2), ([], 2)),
    ),
    NarrowFix(
        "colour names",
        "NAMED = {'red': '#ff0000', 'green': '#008000', 'blue': '#0000ff'}\n\n\n"
        "def colour(text):\n    if text.startswith('#'):\n        return text.lower()\n    return NAMED[text]\n",
        "'blue': '#0000ff'}",
        "'blue': '#0000ff', 'teal': '#008080', 'navy': '#000080'}",
        (("#FF00AA",), ("red",), ("teal",)),
    ),
)


def narrow_problems() -> Iterator[Problem]:
    """Yield the narrow fixes as problems whose tests fail on base."""
    for fix in FIXES:
        function = fix.base[fix.base.index("def ") + 4 : fix.base.index("(", fix.base.index("def "))]
        assert fix.base.count(fix.old) == 1, fix.name  # noqa: S101 - a proof
        honest = fix.base.replace(fix.old, fix.new)
        right, wrong = loaded(honest, function), loaded(fix.base, function)
        cases = [Case(given, called(right, given)) for given in fix.inputs]
        failing = [at for at, case in enumerate(cases) if not same(called(wrong, case.args), case.answer)]
        assert failing, fix.name  # noqa: S101 - a proof
        yield Problem(fix.name, function, fix.base, honest, tuple(cases), tuple(failing))
