"""Compare changed command lines: flags of runners, shell tricks, recipes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# Constructs that make any failing check succeed.
LOOSENS = re.compile(
    r"\|\|\s*(?:true|:|exit\s+0|echo|/bin/true)|;\s*(?:true|:)\s*$|\bexit\s+0\b|\bset\s+\+e\b|&\s*$|--no-fail|--exit-zero|"
    r"--passWithNoTests|--pass-with-no-tests|--if-present|--silent-failures|--forceExit|--bail=0|-DskipTests|"
    r"-Dmaven\.test\.(?:skip|failure\.ignore)|-x\s+test\b|--no-verify|continue-on-error:\s*(?:\$\{\{\s*)?[\"']?true|"
    r"allow_failure:\s*[\"']?true|"
    r"\|\s*(?:true|cat|tail|head|tee)\b|\bif:\s*(?:\$\{\{\s*)?(?:false|always\(\)\s*&&\s*false)|"
    r"--warn-only|--max-warnings[ =]-?\d"
)
# Flags that run fewer tests, stop early, or hide output.
NARROWS = re.compile(
    r"^(?:-k|-m|--ignore\S*|--deselect\S*|-x|--exitfirst|--maxfail\S*|-p|--co|--collect-only|--lf|--last-failed\S*|--ff|--nf|"
    r"--sw|--stepwise\S*|-c|--rootdir\S*|--confcutdir\S*|--override-ini\S*|"
    r"-o|--noconftest|--runxfail|--no-cov\S*|--cov-fail-under\S*|"
    r"--disable-warnings|--disable-pytest-warnings|-W\S*|--pythonwarnings\S*|--pyargs|--import-mode\S*|"
    r"--testPathIgnorePatterns\S*|"
    r"--testNamePattern\S*|-t|--grep\S*|-g|--invert|--onlyChanged|-o|--findRelatedTests|--testPathPattern\S*|"
    r"--run\S*|-run\S*|-skip\S*|"
    r"--skip\S*|--exclude\S*|--only\S*|--shard\S*|-short|--filter\S*|-E|--tests?\b\S*|--extend-ignore\S*|--extend-exclude\S*|"
    r"--per-file-ignores\S*|--fix|--exit-zero|--select\S*|--allow-\S*|--cap-lints\S*|-A|--quiet-errors)$"
)
STRICTER = re.compile(
    r"^(?:\{(?:posargs|tty|env)\S*|--strict\S*|-r[a-zA-Z]*|-v+|-q+|--verbose|--quiet|--tb\S*|--color\S*|--durations\S*|--cov|--cov=\S*|--cov-report\S*|"
    r"--cov-branch|--cov-config\S*|--cov-context\S*|--doctest-\S*|--showlocals|-l|-s|-n|-n\S+|"
    r"--numprocesses\S*|--dist\S*|--junit\S*|"
    r"--coverage\S*|--ci|--reporter\S*|-race|-count=1|--timeout\S*|"
    r"-Werror|-W error|--all-features|--workspace|--all-targets|"
    r"--benchmark-\S*|--randomly\S*|-p no:cacheprovider|--capture\S*|"
    r"--runInBand|--locked|--frozen|auto|\d+|"
    r"--show-\S*|--pdbcls\S*|"
    r"--hypothesis-\S*|--instafail|--html\S*|--json\S*|--output\S*|--xdoctest\S*|--asyncio-mode\S*|"
    r"--no-header|--no-summary|--check)$"
)
_PAIRED = frozenset(
    {"-k", "-m", "-p", "-c", "-o", "-W", "-n", "-t", "--ignore", "--deselect", "--maxfail", "--cov", "--rootdir"}
)


def words(line: str) -> list[str]:
    """Split a command line into words, joining each flag with its value."""
    try:
        plain = shlex.split(line, comments=False)
    except ValueError:
        plain = line.split()
    joined: list[str] = []
    for word in plain:
        if joined and joined[-1] in _PAIRED:
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def options(old: Sequence[str], new: Sequence[str]) -> str | None:
    """Return why a list of flags checks less than before, or None."""
    added = [word for word in new if word not in old]
    removed = [word for word in old if word not in new]
    for word in added:
        if not _matches(STRICTER, word):
            return f"adds `{word}`" if _matches(NARROWS, word) else f"adds `{word}`, which is not known to be harmless"
    for word in removed:
        if not _matches(NARROWS, word) and not _changes_output_only(word):
            return f"drops `{word}`"
    return None


def _matches(pattern: re.Pattern[str], word: str) -> bool:
    return pattern.match(word) is not None or pattern.match(word.split(" ", maxsplit=1)[0]) is not None


def _changes_output_only(word: str) -> bool:
    """Return True if the flag changes only the output or the speed."""
    return (
        re.match(
            r"-(?:r[a-zA-Z]*|v+|q+|n.*|s|l)$|--(?:tb|color|durations|verbose|quiet|showlocals|dist|benchmark)", word
        )
        is not None
    )


def command(old: str, new: str) -> str | None:
    """Return why a changed command line checks less than before, or None."""
    if (match := LOOSENS.search(new)) and not LOOSENS.search(old):
        return f"`{match[0].strip()}` lets a failure pass"
    before, after = words(old), words(new)
    if not before:
        return None
    if before[:1] != after[:1]:
        return f"`{old[:60]}` became `{new[:60]}`"
    return options(before[1:], after[1:])


def recipe(old: Sequence[str], new: Sequence[str]) -> str | None:
    """Return why a list of command lines checks less, or None: a line is removed, loosened, or ignores failures."""
    new_lines = [line for line in new if line not in old]
    for line in new_lines:
        if LOOSENS.search(line):
            return f"`{line[:80]}` lets a failure pass"
        if line.lstrip("@").startswith("-") and line.lstrip("@-+ ") in {old_line.lstrip("@-+ ") for old_line in old}:
            return f"a failure of `{line[:80]}` is now ignored"
    waiting = list(new_lines)
    for line in old:
        if line in new:
            continue
        if not waiting:
            return f"`{line[:80]}` was removed"
        if why := command(line.lstrip("@-+ "), waiting.pop(0).lstrip("@-+ ")):
            return why
    return None
