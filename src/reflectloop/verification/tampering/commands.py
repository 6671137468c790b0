"""Compare command lines that run checks: which tool they call, on what, and how strictly."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.parts import calls_a_tool
from reflectloop.verification.tampering import versions
from reflectloop.verification.tools.commands import PACKAGE_MANAGERS, call, script_name
from reflectloop.verification.tools.record import words as words_of
from reflectloop.verification.tools.registry import by_name, tools


class Weakening(NamedTuple):
    """Why something checks less from now on, and how certain that is."""

    why: str
    grade: Literal["weakening", "suspect"] = "weakening"


class Command(NamedTuple):
    """One call of a program in a script."""

    text: str  # as written, without the commands before and after it
    program: str  # the tool, whatever wrapper starts it
    words: tuple[str, ...] = ()  # its arguments, each flag joined with its value
    lets_pass: str = ""  # what makes its failure count as success
    kind: str = ""  # of a known tool


# Constructs that make any failing check succeed.
_LOOSENS = (
    r"\|\|\s*(?:true|:|exit\s+0|echo|/bin/true)|;\s*(?:true|:)\s*$|\bexit\s+0\b|\bset\s+\+e\b|(?<![&\d])&\s*$|"
    r"\|\s*(?:true|cat|tail|head|tee)\b"
)
_LOOSENING_FLAGS = r"--no-fail\b|--exit-zero|--if-present|--silent-failures|--no-verify|--warn-only"
# Flags that run fewer tests, stop early, or leave something out.
_NARROWS = (
    *(
        r"--run\S*",
        r"--skip\S*",
        r"--exclude\S*",
        r"--only\S*",
        r"--\S*-(?:exclude|ignore|skip)\S*",
        r"--shard\S*",
        r"--filter\S*",
        r"--select\S*",
        "--fix",
    ),
    *("--exit-zero", "--quiet-errors", r"--ignore\S*", r"--extend-ignore\S*", r"--disable\S*", r"--allow\S*"),
    *(r"--omit\S*", "--bail", "--fail-fast", "--no-strict\\S*", "--no-tests"),
)
_HARMLESS = (
    *(r"--strict\S*", "-[vqV]+", "--verbose", "--quiet", r"--color\S*", r"--reporter\S*", r"--timeout\S*", "-Werror"),
    *(
        r"-W[ =]?error\S*",
        "auto",
        r"\d+",
        r"--show-\S*",
        r"--json\S*",
        r"--output\S*",
        "--check",
        r"--no-(?:cache|color)\S*",
    ),
    *(
        r"--no-(?:progress|install|deps|header|summary|audit|fund|cov-on-fail|cache-dir)\S*",
        "--disable-pip-version-check",
    ),
    *(r"--disable-socket\S*", r"-[jn]\s*\S*", r"--jobs\S*", r"--parallel\S*", r"--cache\S*", r"--config\S*"),
)
# Flags without which less is demanded.
_DEMANDS = lazy(
    r"-(?:W|race$|D)|--(?:\S*(?:strict|fail|error|warn|threshold|max-|min-|require|check|branch|doctest|lines|functions|"
    r"statements|branches|coverage|forbid|all|workspace|tests|examples)\S*|cov(?:=.*)?$|no-run$)"
)
_OUTPUT_ONLY = lazy(
    r"-(?:r[a-zA-Z]*|v+|q+|n.*|s|l)$|--(?:tb|color|durations|verbose|quiet|showlocals|dist|benchmark|cov-report|"
    r"cov-config|cov-append|no-cov|boxed|forked|max-worker|max-processes|show|json|output|report)"
)
_BOUND = lazy(r"fail|min|max|threshold|limit|lines|branches|functions|statements|coverage|warnings|complexity")
_LOWER_IS_WEAKER = lazy(r"fail|min|threshold|lines|branches|functions|statements|coverage")
_SEVERAL_COMMANDS = frozenset(
    words_of(
        "npm pnpm yarn bun make just task invoke doit rake gradle gradlew mvn mvnw cargo go hatch pdm poetry uv "
        "pre-commit coverage dotnet deno nx turbo lerna mix swift bazel zig docker cmake meson ninja moon mage "
        "composer ruff biome"
    )
)
_RUNS_OTHERS = frozenset(
    {"tox", "nox", "npm", "pnpm", "yarn", "make", "just", "hatch", "pre-commit", "prek", "uv", "task"}
)
# Work beside the checks: installations, documentation, releases, reports of what was measured.
_OTHER_WORK = lazy(
    r"\b(?:install|easy_install|uninstall|upgrade|download|publish|upload|release|deploy|twine|docs?|docset|doc8|sphinx\S*|"
    r"website|site|serve|changelog|cog|bench\w*|codspeed|profile|combine|erase|html|xml|lcov|restore|cache|login|codecov|"
    r"coveralls|clean|autoupdate|compile|lock|sync|devenv|notest|list-sessions|dev|start|watch|bundle|"
    r"storybook|generate)\b|npm ci\b|\bnpm\s(?:-\S+\s)*(?:ls|list|view|explain)\b|^(?:yarn|pnpm)$|"
    r"^(?:echo|printf|cd|export|mkdir|rm|cp|mv|ls|cat|which|git|curl|wget|apt|apt-get|brew|choco|sudo apt\S*|pip\d?|"
    r"chmod|chown|corepack|tar|unzip|touch|ln|source|env|pwd|sleep|ssh|scp|docker|tee|find|sed|awk|grep)\b|"
    r"^(?:python\S*|node|perl|ruby|(?:ba)?sh)\s+-[ce]\b|\s-m build\b|"
    r"\bgo (?:get|mod|build|generate)\b|\s(?:-V|-VV|--version|--help)\b|"
    r"\b(?:npm|yarn|pnpm|bun)\s(?:global\s)?(?:add|i)\b"
)
# A command on no list whose own words say that it tests.
_NAMED_LIKE_A_CHECK = lazy(
    r"(?i)^[\"'\[]*(?:\.{0,2}/|(?:sudo|node|deno|bun|npx|python3?|sh|bash|php|perl|ruby|java|cmake|ninja|meson|just|task|"
    r"invoke|doit|dotnet|swift|mix|lein|sbt|bazel|zig|docker|uv|make)\b).{0,200}?"
    r"(?<![a-z])(?:tests?|checks?|lint|specs?|verify|coverage|typecheck)(?![a-z])"
)
# Linters that have no record of their own.
_LINTERS = lazy(
    r"\b(?:pep8|pycodestyle|pydocstyle|pyflakes|codespell|yamllint|hadolint|markdownlint\S*|typos|vulture|interrogate|"
    r"check-manifest|pyroma|oxlint|dprint|zizmor|actionlint|semgrep|safety check|"
    r"pip-audit|npm audit|aud|mdformat|tslint|jshint)\b"
)
_SPLIT = lazy(r"""((?:[^;&|'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*"|&(?!&)|(?<=>)&)+)|(\|\||&&|[;|])|(.)""", re.DOTALL)
_EXPRESSION = lazy(r"\$\{\{(.*?)\}\}")
_SUBSTITUTED = lazy(r"\$\([^()]* [^()]*\)|`[^`]*`")
_PROGRAMS = {"prek": "pre-commit", "py.test": "pytest", "gmake": "make"}
_INTERPRETERS = frozenset({"bash", "sh", "python", "node", "perl", "ruby", "php", "tsx", "ts-node", "deno"})
_STARTERS = frozenset(words_of("sudo uvx exec then do else ! time npx bunx c8 nyc"))
_PACKAGE_RUNNERS = (["pnpm", "exec"], ["npm", "exec"], ["yarn", "exec"], ["pnpm", "dlx"], ["yarn", "dlx"])
_SHELL_WORDS = frozenset(
    words_of("for do done if then fi else exit test [ [[ while case esac set true false shift read return : { }")
)
_RUNNERS = (["pipx", "run"], ["uv", "run"], ["poetry", "run"], ["pdm", "run"], ["pipenv", "run"], ["rye", "run"])
# Options of these that take no value.
_WITH_VALUE = frozenset(words_of("-p --package -r --reporter -n --include -x --exclude"))
_ALONE = frozenset(
    words_of(
        "--locked --frozen --no-sync --isolated --no-project --all-extras --all-groups --no-dev --exact --active -q "
        "--quiet --dev --no-default-groups --verbose -v --offline --refresh --no-cache --system"
    )
)
_ASSIGNED = lazy(r"([A-Za-z_]\w*)=(.*)")
_HOLDS_OPTIONS = lazy(r"(?:OPTS|OPTIONS|ARGS|FLAGS)$")
_OF_THE_ENGINE = lazy(r"(?i)[\"']?--(?:experimental|max|no-warnings|enable|openssl|unhandled|trace|stack)\S*")
_BEFORE_VARIABLES = frozenset(words_of("cross-env env sudo exec npx time"))
_POSARGS = lazy(r"\{tty:[^{}]*\}|\{posargs:?([^{}]*)\}|\{(?:tox_root|toxinidir|/)\}/?|\{env:\w+:([^{}]*)\}")
_PYTHON = lazy(r"^(?:\{env_?python\}|\{env_?bin_?dir\}/python\S*|\$[({]\w*PYTHON\w*[)}]|[\w./-]*python[\d.]*)$")
_SIMILAR = 0.6  # of two commands, for one to stand in the place of the other
_COMMON_WORDS = frozenset({"run", "python", "node", "make", "bin", "all", "src", "npm", "npx", "true"})
_CALLED_BY_VARIABLE = lazy(r"(?i)^\$[({]?\w*(?:test|nose|tox|lint|check)\w*[)}]?$")
_IN_FOLDER = lazy(r"\s(?:-C|--directory|--prefix|--cwd|--dir|--only-in)[ =]?(\S+)")
_EVERYTHING = frozenset({".", "**", "*", "**/*", "./...", "..."})
_WITH_ENVIRONMENTS = frozenset({"tox", "nox"})
_CHOSEN = lazy(r"(?:^|\s)(?:-e|-s|--session|--sessions|-m)[ =]?(\S+)")
_VARIABLE_PART = lazy(r"\$\{\{.*?\}\}|\$[({]?\w+[)}]?|\{\{.*?\}\}|\{\w[\w:]*\}")
_NO_PATH = lazy(rf"^\d+$|^\w+=|{_VARIABLE_PART.pattern}")


@cache
def loosens() -> re.Pattern[str]:
    """Return the pattern of what lets a failure pass."""
    return re.compile(f"{_LOOSENS}|{_loosening_flags().pattern}")


@cache
def _loosening_flags() -> re.Pattern[str]:
    return re.compile("|".join([_LOOSENING_FLAGS, *(flag for tool in tools() for flag in tool.tampering.loosens)]))


@cache
def _narrows(name: str) -> re.Pattern[str]:
    """Return the pattern of flags with which a tool checks less."""
    tool = by_name().get(name)
    return _any_flag([*(tool.tampering.narrows if tool else ()), *_NARROWS])


@cache
def _own_narrows(name: str) -> re.Pattern[str]:
    """Return the pattern of the flags that the record of a tool names, whatever they mean to other tools."""
    tool = by_name().get(name)
    return _any_flag(tool.tampering.narrows if tool and tool.tampering.narrows else ("(?!)",))


@cache
def _harmless_for(name: str) -> re.Pattern[str]:
    """Return the pattern of flags that are harmless for one tool: `-r` is a summary of pytest, and code for mocha."""
    tool = by_name().get(name)
    return _any_flag([*_HARMLESS, *(tool.tampering.stricter if tool else ())])


@cache
def _harmless() -> re.Pattern[str]:
    return _any_flag([*_HARMLESS, *(flag for tool in tools() for flag in tool.tampering.stricter)])


@cache
def _valued(name: str = "") -> frozenset[str]:
    """Return the flags that take a value: those of a tool, or of every tool where it is unknown."""
    known = [by_name()[name]] if name in by_name() else tools()
    return frozenset(flag for tool in known for flag in tool.tampering.valued_flags)


def _any_flag(flags: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"^(?:{'|'.join(dict.fromkeys(flags))})$")


def words(line: str) -> list[str]:
    """Split a command line into words, joining each flag with its value."""
    try:
        plain = shlex.split(line, comments=False)
    except ValueError:
        plain = line.split()
    return _joined(plain)


def _joined(plain: Iterable[str], tool: str = "") -> list[str]:
    joined: list[str] = []
    for word in plain:
        if joined and joined[-1] in _valued(tool):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


# Which commands a line runs ---------------------------------------------------------------------------------


def read(line: str) -> Iterator[Command]:
    """Yield the commands of one line of a shell script."""
    lets_pass = what_lets_pass(line)
    for segment, _ in segments(line):
        yield from of_segment(segment, lets_pass)


def _without_values_of_the_run(line: str) -> str:
    line = _SUBSTITUTED.sub("$VALUE", line)
    return _EXPRESSION.sub(lambda match: "${" + re.sub(r"[^\w.]+", "_", match[1]).strip("_") + "}", line)


def what_lets_pass(line: str) -> str:
    """Return the part of a line that makes a failure of its commands count as success."""
    match = re.search(_LOOSENS, _without_values_of_the_run(line))
    return match[0].strip() if match else ""


def segments(line: str) -> list[tuple[str, str]]:
    """Return the commands of a line as text, each with the sign that follows it: `;`, `|`, `&&` or `||`."""
    pieces: list[tuple[str, str]] = []
    for text, sign, _ in _SPLIT.findall(_without_values_of_the_run(line)):
        if sign and pieces:
            pieces[-1] = (pieces[-1][0], sign)
        elif text.strip():
            pieces.append((text, ""))
    return pieces


def of_segment(segment: str, lets_pass: str = "") -> Iterator[Command]:
    """Yield the commands that one segment of a line runs."""
    if text := segment.strip().lstrip("@"):
        flag = _loosening_flags().search(text)
        yield from _each(_one(text, lets_pass or (flag[0].strip() if flag else "")))


def _each(command: Command) -> Iterator[Command]:
    """Yield a call of make with several targets as several calls."""
    targets = [word for word in command.words if not word.startswith("-") and "=" not in word]
    if command.program.startswith(("make ", "just ")) and targets:
        flags = tuple(word for word in command.words if word not in targets)
        program = command.program.partition(" ")[0]
        for target in (command.program.partition(" ")[2], *targets):
            yield command._replace(program=f"{program} {target}", words=flags)
    else:
        yield command


def _one(text: str, lets_pass: str) -> Command:
    if text.startswith("-") and not text.startswith("--"):
        text, lets_pass = text.lstrip("- "), lets_pass or "-"
    if text.startswith("! "):
        lets_pass = lets_pass or "!"
    argv = _argv(text)
    known = (call(argv) or (call(argv[1:]) if argv[0] in PACKAGE_MANAGERS else None)) if argv else None
    if known:
        tool = by_name()[known.tool]
        words = (*_options_by_variable(text), *_joined(known.arguments, known.tool))
        return Command(text, known.tool, words, lets_pass, tool.kind)
    if argv[:2] == ["python", "-m"] and argv[2:]:
        argv = argv[2:]
    if (script := script_name(argv)) is not None:
        return Command(text, f"npm run {script}", (), lets_pass)
    program, rest = (
        (_PROGRAMS.get(name := PurePosixPath(argv[0]).name.partition("@")[0], name), argv[1:]) if argv else ("", [])
    )
    if program in _INTERPRETERS and rest and not rest[0].startswith("-"):
        return Command(text, f"{program} {rest[0].removeprefix('./')}", tuple(_joined(rest[1:])), lets_pass)
    if program in _SEVERAL_COMMANDS and (first := next((word for word in rest if not word.startswith("-")), None)):
        at = rest.index(first) + (
            2 if first in {"run", "run-script", "exec"} and len(rest) > rest.index(first) + 1 else 1
        )
        named = [word for word in rest[:at] if not word.startswith("-")]
        return Command(text, " ".join([program, *named]), tuple(_joined(rest[at:])), lets_pass)
    return Command(text, program, tuple(_joined(rest)), lets_pass)


def _options_by_variable(text: str) -> Iterator[str]:
    """Yield the variables before a command that hold options of it, as flags."""
    for word in text.split():
        match = _ASSIGNED.fullmatch(word)
        if match and _HOLDS_OPTIONS.search(match[1]) and not _OF_THE_ENGINE.fullmatch(match[2]):
            yield f"--{word}"
        elif not match and word not in _BEFORE_VARIABLES:
            return


def _argv(text: str) -> list[str]:
    plain = _POSARGS.sub(lambda match: match[1] or match[2] or "", text)
    try:
        argv = shlex.split(plain, comments=True)
    except ValueError:
        argv = plain.split()
    if argv[:1] == ["ruff"] and argv[1:2] and argv[1] not in {"check", "format", "rule", "clean", "--version"}:
        argv = ["ruff", "check", *argv[1:]]  # as it was called once
    while argv and (
        re.match(r"[A-Za-z_]\w*=", argv[0]) or argv[0] in _STARTERS or argv[:2] in (*_RUNNERS, *_PACKAGE_RUNNERS)
    ):
        python = argv[:2] in _RUNNERS or argv[0] == "uvx"
        node = argv[0] in {"npx", "bunx", "c8", "nyc"} or argv[:2] in _PACKAGE_RUNNERS
        argv = argv[2:] if argv[:2] in (*_RUNNERS, *_PACKAGE_RUNNERS) else argv[1:]
        while (python or node) and argv and argv[0].startswith("-") and argv[0] != "-m":
            alone = "=" in argv[0] or (argv[0] in _ALONE if python else argv[0] not in _WITH_VALUE)
            argv = argv[1:] if alone else argv[2:]
    if argv and argv[0] == "-m":
        argv = ["python", *argv]
    if argv and _PYTHON.match(argv[0]):
        # `python -Im pytest` is `python -m pytest`.
        argv = [
            "python",
            *(word for each in argv[1:] for word in (("-m",) if re.fullmatch(r"-[A-Za-z]+m", each) else (each,))),
        ]
    return [re.sub(r"^\$\{\w+\}/?(?=[a-z])|^\{env_?bin_?dir\}/|^\.?/?node_modules/\.bin/", "", word) for word in argv]


def prepares(command: Command) -> bool:
    """Return True if the command installs, cleans, documents or publishes."""
    return command.program in _SHELL_WORDS or _OTHER_WORK.search(command.text) is not None


def is_check(command: Command) -> bool:
    """Return True if the command tests, lints or checks types, by its tool or by its own words."""
    if command.program in _WITH_ENVIRONMENTS:
        return not _OTHER_WORK.search(" ".join(command.words))
    if command.kind:
        return command.kind != "build" and "--version" not in command.words
    if prepares(command):
        return False
    text = f"{command.program} {' '.join(command.words)}"
    if command.program.startswith("coverage"):
        return command.program == "coverage run" or "fail" in command.text
    if _CALLED_BY_VARIABLE.match(command.program):
        return True
    return (
        calls_a_tool(text) or _LINTERS.search(text) is not None or _NAMED_LIKE_A_CHECK.search(command.text) is not None
    )


# What a change of them does ---------------------------------------------------------------------------------


def _plain(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without what has no meaning: `./`, a final slash, the quotes of a flag's value."""
    kept_words = (word.strip().removeprefix("./").rstrip("/") or "." for word in arguments)
    return [word.replace('"', "").replace("'", "") for word in kept_words if "posargs" not in word and word != "--"]


def options(old: Sequence[str], new: Sequence[str], kind: str = "test", tool: str = "pytest") -> Weakening | None:
    """Return why a list of arguments checks less than before, or None."""
    before, after = _plain(old), _plain(new)
    added = [word for word in after if word not in before]
    removed = [word for word in before if word not in after]
    if effect := _numbers(added, removed):
        return effect
    for word in (word for word in added if word.startswith("-")):
        if (kind == "lint" and _matches(_own_narrows(tool), word)) or (
            _matches(_narrows(tool), word) and not _matches(_harmless_for(tool), word)
        ):
            return Weakening(f"adds `{word}`")
        if kind == "test" and not _matches(_harmless(), word) and not _same_flag(word, removed):
            return Weakening(f"adds `{word}`, which is not known to be harmless", "suspect")
    for word in (word for word in removed if word.startswith("-")):
        if (
            _matches(_narrows(tool), word)
            or _loosening_flags().search(word)
            or _OUTPUT_ONLY.match(word)
            or _same_flag(word, added)
        ):
            continue
        if _DEMANDS.match(word):
            return Weakening(f"drops `{word}`")
        if kind == "test" and not _matches(_harmless(), word):
            return Weakening(f"drops `{word}`", "suspect")
    return _paths(before, after)


def _same_flag(word: str, others: Iterable[str]) -> bool:
    name = re.split(r"[ =]", word)[0]
    return any(re.split(r"[ =]", other)[0] == name for other in others)


def _numbers(added: list[str], removed: list[str]) -> Weakening | None:
    """Compare flags that had another number before, and take them from both lists."""
    for word in [word for word in added if word.startswith("-")]:
        name, _, value = word.replace("=", " ").partition(" ")
        other = next((each for each in removed if each.replace("=", " ").partition(" ")[0] == name), None)
        old = other.replace("=", " ").partition(" ")[2] if other else ""
        if (
            other
            and _BOUND.search(name)
            and re.fullmatch(r"-?\d+(\.\d+)?", value)
            and re.fullmatch(r"-?\d+(\.\d+)?", old)
        ):
            added.remove(word)
            removed.remove(other)
            lower = float(value) < float(old)
            if lower == bool(_LOWER_IS_WEAKER.search(name)) and not _OUTPUT_ONLY.match(name):
                return Weakening(f"`{other}` became `{word}`")
    return None


def _paths(before: Sequence[str], after: Sequence[str]) -> Weakening | None:
    old, new = (
        [word for word in side if not word.startswith("-") and not _NO_PATH.search(word)] for side in (before, after)
    )
    if not new or old == new:
        return None
    if not old:
        variable = any(_VARIABLE_PART.search(word) for word in before)
        return (
            None
            if variable or new[0] in _EVERYTHING
            else Weakening(f"now takes only `{' '.join(new)[:60]}`", "suspect")
        )
    lost = [word for word in old if not any(covers(other, word) for other in new)]
    variable = any(_VARIABLE_PART.search(word) for word in after if word not in before)
    return Weakening(f"no longer takes `{lost[0][:60]}`") if lost and not variable else None


def covers(pattern: str, path: str) -> bool:
    """Return True if a path or pattern takes in all that another one does."""
    pattern, path = (text.strip().strip("\"'").removeprefix("./").rstrip("/") or "." for text in (pattern, path))
    pattern = re.sub(r"(?<=.)/\*\*(?:/\*)?$", "", pattern)
    if "{" in pattern:
        return any(covers(each, path) for each in versions.expanded(pattern) if "{" not in each)
    if pattern == path or pattern in _EVERYTHING or path.startswith(f"{pattern}/"):
        return True
    return "*" in pattern and re.fullmatch(_as_regex(pattern), path) is not None


@cache
def _as_regex(pattern: str) -> str:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    known = {"**/": r"(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(known.get(piece) or re.escape(piece) for piece in pieces)


def _matches(pattern: re.Pattern[str], word: str) -> bool:
    return pattern.match(word) is not None or pattern.match(word.split(" ", maxsplit=1)[0]) is not None


def effect(old: Command, new: Command) -> Weakening | None:
    """Return why a command checks less than the one it replaces, or None."""
    if new.lets_pass and not old.lets_pass:
        return Weakening(f"`{new.lets_pass}` lets a failure of `{new.text[:60]}` pass")
    if old.program in _WITH_ENVIRONMENTS:
        return _environments(old.words, new.words)
    if old.program.partition(" ")[0] in _RUNS_OTHERS:
        places = [_IN_FOLDER.findall(f" {command.text}") for command in (old, new)]
        return Weakening(f"now runs in `{places[1][0]}`", "suspect") if places[1] and places[0] != places[1] else None
    before, after = (command.words if old.kind else _without_values(command.words) for command in (old, new))
    return options(before, after, old.kind, old.program)


def _without_values(words: Sequence[str]) -> list[str]:
    """Return the arguments of an unknown tool without words that may be the value of the flag before them."""
    pairs = zip(["", *words], words, strict=False)
    return [word for flag, word in pairs if word.startswith("-") or not flag.startswith("--") or "=" in flag]


def _shares_environments(old: Command, new: Command) -> bool:
    before, after = ({versions.factors(name)[0] for name in _chosen(command.words)} for command in (old, new))
    return not before or not after or bool(before & after) or any("$" in name for name in before | after)


def _chosen(words: Sequence[str]) -> list[str]:
    """Return the environments that a call of tox or nox chooses."""
    return [name for match in _CHOSEN.finditer(" ".join(words)) for name in versions.expanded(match[1])]


def _environments(old: Sequence[str], new: Sequence[str]) -> Weakening | None:
    """Compare the environments that a call of tox or nox chooses; none chosen are all."""
    before, after = _chosen(old), _chosen(new)
    if not after or any(_VARIABLE_PART.search(name) for name in (*before, *after)):
        return None
    if not before:
        return Weakening(f"now runs only `{' '.join(after)[:60]}`", "suspect")
    labels = {versions.factors(name)[0] for name in after}
    gone = [name for name in before if versions.factors(name)[0] not in labels]
    return Weakening(f"no longer runs `{gone[0][:60]}`") if gone else None


class LostCheck(NamedTuple):
    """A check of before that is gone or checks less, and the command in its place."""

    old: Command
    new: Command | None
    effect: Weakening


def lost(
    before: Sequence[Command],
    after: Sequence[Command],
    elsewhere: frozenset[str] = frozenset(),
    old: Sequence[Command] = (),
) -> Iterator[LostCheck]:
    """Yield the checks that are gone or check less.

    `elsewhere` names the tools that other files run, `old` other commands that were there before.
    """
    known = {_key(command) for command in (*before, *old)}
    fresh = [command for command in after if _key(command) not in known]
    still = {_key(command) for command in after}
    programs = frozenset(command.program for command in (*before, *old))
    reported = set[tuple[object, ...]]()
    for command in before:
        if _key(command) in still or _key(command) in reported:
            continue
        reported.add(_key(command))
        if loss := _loss(command, programs, after, fresh, elsewhere):
            yield loss


def _likeness(old: Command, new: Command) -> float:
    """Return how well a command can stand in the place of another: a tool of the same kind, the same words."""
    words = [set(re.findall(r"[a-z]{3,}", command.text.lower())) - _COMMON_WORDS for command in (old, new)]
    same_kind = bool(old.kind) and old.kind == new.kind
    ratio = SequenceMatcher(None, old.text, new.text, autojunk=False).ratio()
    return same_kind + bool(words[0] & words[1]) + ratio


def _key(command: Command) -> tuple[object, ...]:
    return command.program, tuple(sorted(_plain(command.words))), bool(command.lets_pass)


def _loss(
    old: Command,
    programs: frozenset[str],
    after: Sequence[Command],
    fresh: Sequence[Command],
    elsewhere: frozenset[str],
) -> LostCheck | None:
    similar = [command for command in (*fresh, *after) if command.program == old.program]
    similar.sort(key=lambda command: -len(set(_plain(command.words)) & set(_plain(old.words))))
    if old.program in _WITH_ENVIRONMENTS:
        similar = [command for command in similar if _shares_environments(old, command)]
    effects = [(command, effect(old, command)) for command in similar]
    if any(each is None for _, each in effects):
        return None
    if new := next(((command, each) for command, each in effects if each and command in fresh), None):
        return LostCheck(
            old,
            new[0],
            Weakening(f"`{new[0].text[:80]}` {new[1].why}" if "`" not in new[1].why[:1] else new[1].why, new[1].grade),
        )
    delegates = [command for command in fresh if command.program.split()[0] in _RUNS_OTHERS]
    if delegates and old.program in elsewhere:
        return None
    kinds = {"", old.kind}
    others = [
        command
        for command in fresh
        if is_check(command)
        and command.program not in programs
        and (not old.kind or command.kind in kinds or command in delegates)
    ]
    others.sort(key=lambda command: -_likeness(old, command))
    if others and (others[0] in delegates or _likeness(old, others[0]) >= _SIMILAR):
        return LostCheck(old, others[0], Weakening(f"`{old.text[:70]}` became `{others[0].text[:70]}`", "suspect"))
    if others:
        why = f"`{old.text[:70]}` is no longer run, and `{others[0].text[:70]}` is new"
        return LostCheck(old, None, Weakening(why, "suspect"))
    return LostCheck(old, None, Weakening(f"`{old.text[:80]}` is no longer run"))
