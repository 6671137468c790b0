"""Patterns of lines that name a file and a location in it, as data tried in order by `places`."""

from __future__ import annotations

import re

DRIVE = r"(?:[A-Za-z]:(?=[\\/]))?"
_NAME = rf"(?:file://)?{DRIVE}[^:\t\"'|]"
_FILE = rf"(?P<file>{_NAME}{{1,300}}|<\w{{1,20}}>)"
_LINE = r"(?P<line>\d{1,7})"
_NUMBERS = rf"{_LINE}(?:[:.,] ?(?P<column>\d{{1,6}}))?(?:\s?-\s?\d{{1,7}}(?:[:.,]\d{{1,6}})?)?"
_PAIR = rf"{_LINE}(?:[,:.] ?(?P<column>\d{{1,6}}))?(?:[-,:] ?\d{{1,7}}){{0,2}}"
_REST = r"(?P<message>.*)$"
_COLUMN = r"(?:(?:,|:)? ?(?:col(?:umn)?|character|char|position|pos)s?[:.]? ?(?P<column>\d{1,6})(?:-\d{1,6})?)?"

# A required substring, which rules out most lines cheaply, and the pattern. An example is above each.
_SHAPES = (
    # ::error file=a.py,line=3,col=5::message
    (
        "::",
        (
            rf"^::(?P<grade>error|warning|notice) (?:[^:,]*,)?file=(?P<file>[^,:]{{1,300}})(?:,line={_LINE})?"
            rf"(?:,\w+=(?P<column>\d{{1,6}}))?[^:]{{0,200}}::{_REST}"
        ),
    ),
    # ##vso[task.logissue type=error;sourcepath=a.py;linenumber=3;columnnumber=5;code=F401;]message
    (
        "##vso[",
        (
            rf"^##vso\[task\.logissue type=(?P<grade>\w+);sourcepath=(?P<file>[^;\]]{{1,300}});linenumber={_LINE}"
            rf"(?:;columnnumber=(?P<column>\d{{1,6}}))?(?:;code=(?P<rule>[^;\]]{{1,80}}))?[^\]]{{0,200}}\]{_REST}"
        ),
    ),
    # as a.c:3:5: message, a.c:3 message, a.ts:3:5 - error or a.f90:3.5-7:
    (":", rf"^{_FILE} ?:{_NUMBERS}(?P<sep>: ?| +-+ +| +|$){_REST}"),
    # A.java:[3,5] message    B.hs:(3,5)-(4,7): message
    (":", rf"^{_FILE}:[\[(]{_PAIR}[\])](?:-\(\d{{1,7}},\d{{1,6}}\))?:? *{_REST}"),
    # a.cs(3,5): error    a.pas(3) Hint:    a.kt: (3, 5): message
    ("(", rf"^{_FILE}(?:: )? ?\((?:line )?{_PAIR}\) ?(?::|(?=\s*[A-Za-z]))\s*{_REST}"),
    # in brackets: a.ts[3, 5]: message
    ("[", rf"^{_FILE}\[{_PAIR}\] ?: ?{_REST}"),
    # [a.go:3:5] message    [a.cpp:3]: (style) message
    ("[", rf"^\[{_FILE}:{_NUMBERS}\](?: ->.{{0,300}}\])?:? *-? *{_REST}"),
    # "a.c", line 3: message    File "a.ml", line 3, characters 5-7:
    ('"', rf"^(?:File )?\"(?P<file>[^\"\n]{{1,300}})\",? ?(?:line )?{_LINE}(?:-\d{{1,7}})?{_COLUMN}[:,]? *{_REST}"),
    # a.js: line 3, col 5, message    a.f90, line 3: message    In a.sh line 3:
    ("line", rf"^(?:In |on |at |File )?{_FILE}[,:]? ?(?:at |on )?line:? {_LINE}{_COLUMN}(?:[:,.]| -|$) *{_REST}"),
    # a.pl: message at line 3, column 5.    a.pp - WARNING: message on line 3
    (
        " line ",
        rf"^(?P<file>{_NAME}{{1,300}}?)(?:: | - )(?P<message>.{{1,600}}?) (?:at|on|in) line {_LINE}{_COLUMN}\b",
    ),
    # message in a.php on line 3    message at a.pl line 3.
    (" line ", rf"^(?P<message>.{{1,600}}) (?:in|at) (?P<file>{DRIVE}[^:\t\"' ]{{1,300}}) (?:on )?line {_LINE}\b"),
    # a.rst: WARNING: message    a.py: error: message
    (":", rf"^{_FILE}::?(?:None:)? ?(?P<grade>(?i:error|warning|fatal error))(?:: |\[){_REST}"),
    # 1. ERROR in A.java (at line 3)
    ("(at line ", rf"^(?:\d+\. )?(?P<message>(?P<grade>ERROR|WARNING|INFO)) in {_FILE} \(at line {_LINE}\)$"),
    # INFO|HINT|UNUSED|a.dart|3|5|7|message
    (
        "|",
        (
            rf"^(?P<grade>\w{{1,12}})\|\w{{1,30}}\|(?P<rule>\w{{1,80}})\|(?P<file>[^|]{{1,300}})\|{_LINE}\|"
            rf"(?P<column>\d{{1,6}})\|\d*\|{_REST}"
        ),
    ),
    # warning file=/p/a.scala message=no line=3 column=5
    (
        "file=",
        rf"^(?P<grade>\w{{1,12}}) file=(?P<file>\S{{1,300}}) message=(?P<message>.{{0,600}}?) line={_LINE}\b",
    ),
    # a.c|3 col 5| message
    ("|", rf"^(?P<file>[^|:\t]{{1,300}})\|{_LINE}(?: col (?P<column>\d{{1,6}}))?(?: \w+)?\| ?{_REST}"),
    # a.rb<TAB>3<TAB>message
    ("\t", rf"^(?P<file>[^\t]{{1,300}})\t{_LINE}\t(?:(?P<column>\d{{1,6}})\t)?{_REST}"),
)
SHAPES = tuple((needle, re.compile(shape)) for needle, shape in _SHAPES)
