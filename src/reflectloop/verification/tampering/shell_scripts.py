"""Read a shell script: which commands it runs, where, under which conditions, and what it changes for later ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import is_test
from reflectloop.verification.protected.paths import is_executable
from reflectloop.verification.tampering import commands
from reflectloop.verification.tampering.commands import Command

_HERE_DOCUMENT = lazy(r"<<-?\s*([\"']?)(\w+)\1")
_RUNS_ITS_INPUT = lazy(r"^\s*(?:sudo\s+)?(?:ba|z|da)?sh\b")
_COMMENT = lazy(r"(?:^|\s)#(?!\{).*$")
_BEGINS = lazy(r"^(if|elif|while|until|for|case)\b\s*(.*)$", re.DOTALL)
_FUNCTION = lazy(r"^(?:function\s+([\w.-]+)|([\w.-]+)\s*\(\s*\))\s*(?:\(\s*\))?\s*(\{?)\s*(.*)$", re.DOTALL)
_ASKS = frozenset({"test", "[", "[[", "false", "grep", "!", "command", "which", "type"})
_ENDS = lazy(r"^(exit|return)\b\s*(\S*)\s*$|^exec\s+(?![<>&\d])\S.*")
_FAILS = lazy(r"\b(?:exit|return)\s+(?:[1-9]|\$)")
NEVER = "never: "  # the beginning of a condition that nothing meets
_PROGRAMS = frozenset({"python", "python3", "node", "npm", "npx", "make", "sh", "bash", "test", "cargo", "go", "uv"})
_EXPORTED = lazy(r"^(?:export|declare\s+-x|setenv|set(?=\s+\w+=))\s+([A-Za-z_]\w*)(?:=|\s+)(.*)$", re.DOTALL)
_FILE_OF_VARIABLES = lazy(r"(GITHUB_ENV|GITHUB_PATH|BASH_ENV)\b")
_WRITES = lazy(r">>?|\btee\b|Add-Content|Out-File")
_WRITTEN = lazy(r"(?:echo|printf)\s+(?:-\w+\s+)*[\"']?([A-Za-z_]\w*)(?:=|<<)(.*?)[\"']?\s*(?:>|\||$)", re.DOTALL)
_ADDED_PATH = lazy(
    r"(?:echo|printf|-Value|Write-Output)\s+[\"']?([^\"'>|]+)|Add-Content\s+\S*GITHUB_PATH\S*\s+(?!-)[\"']?([^\"']+)"
)
_OF_THE_REPOSITORY = lazy(r"\$\{?(?:PWD|GITHUB_WORKSPACE)|\$\(pwd\)|github\.workspace")
_INSTALLED = lazy(r"(?:node_modules/\.bin|\.?v?env/(?:bin|Scripts)|vendor/bin|\.local/bin)/?$")
_ELSEWHERE = lazy(r"^(?:/|~|[A-Za-z]:|\$)")
_EDITS = lazy(
    r"^(?:sudo\s+)?(?:rm|mv|truncate|patch)\b|\bsed\s+(?:-\w*i|--in-place)|\bperl\s+-\w*i|"
    r"\bgit\s+(?:checkout|restore|reset|apply|revert|stash|rm|mv|clean)\b|>\s*\S"
)
_OTHER_COMMIT = lazy(r"\bgit\s+(?:checkout|reset|switch)\b(?!.*(?:\$|\s-b\b|\s-B\b|\s-c\b|HEAD)).*")
_OF_TESTS = lazy(r"(?:^|/)(?:tests?|specs?|__tests__)(?:/|$)")


class ScriptEffect(NamedTuple):
    """Something that a script changes for the commands after it."""

    kind: str  # "variable", or "other"
    text: str
    at: int


class ScriptCondition(NamedTuple):
    """A condition that must hold for a command to be reached."""

    text: str
    at: int


class ScriptCommand(NamedTuple):
    """A command of a script with the circumstances in which it runs."""

    at: int  # the position of its line
    command: Command
    conditions: tuple[ScriptCondition, ...] = ()
    folder: str = "."
    sign: str = ""  # that follows it: `;`, `|`, `&&`, `||` or none


@dataclass
class ShellState:
    """The state of a shell at one place of a script."""

    folder: str = "."
    blocks: list[ScriptCondition] = field(default_factory=list)  # of blocks that are open; "" for one without
    ended: list[ScriptCondition] = field(default_factory=list)  # what must hold after a conditional exit
    effects: list[ScriptEffect] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # folders that were left
    text: str = ""

    @property
    def conditions(self) -> tuple[ScriptCondition, ...]:
        return tuple(condition for condition in (*self.blocks, *self.ended) if condition.text)


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script with their positions, each joined with those it continues on, without documents."""
    pending, begins, waiting = "", 0, ""
    for at, line in enumerate(text.splitlines()):
        if waiting:
            waiting = "" if line.strip() == waiting else waiting
            continue
        begins = begins if pending else at
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        whole = _COMMENT.sub("", pending + line).strip()
        pending = ""
        if whole:
            document = _HERE_DOCUMENT.search(whole)
            waiting = document[2] if document and not _RUNS_ITS_INPUT.match(whole) else ""
            yield begins, whole
    if pending.strip():
        yield begins, pending.strip()


def read(text: str, state: ShellState | None = None) -> Iterator[ScriptCommand]:
    """Yield the commands of a script in order; `state` takes up what it changes."""
    state = state or ShellState()
    state.text = text
    listed = list(lines(text))
    for number, (at, line) in enumerate(listed):
        yield from _line(at, line, state, last=number == len(listed) - 1)


def _line(at: int, line: str, state: ShellState, *, last: bool) -> Iterator[ScriptCommand]:
    lets_pass = commands.what_lets_pass(line)
    guards: list[ScriptCondition] = []
    sign, before, folder = "", "", state.folder
    _note_files(at, line, state)
    listed = commands.segments(line)
    for number, (segment, following) in enumerate(listed):
        conditions = state.conditions
        piece, asked = _opened(segment.strip(), state, at)
        bare = _without_group(piece)
        if sign == "||":
            guards = [ScriptCondition(f"not {before}", at)]
        elif sign == "&&" and before.partition(" ")[0] in _ASKS and not last:
            guards.append(ScriptCondition(before, at))
        elif sign not in {"&&", "|"}:
            guards = []
        conditions = (*(conditions if asked else state.conditions), *guards)
        if ends := _ENDS.match(bare):
            _ended(ends, conditions, sign, state, at)
        elif moved := re.match(r"^(?:cd|pushd|Set-Location)(?:\s+(?:--\s+)?(\S+))?", bare):
            state.left.append(state.folder)
            state.folder = joined(state.folder, moved[1] or "~")
        elif bare == "popd" and state.left:
            state.folder = state.left.pop()
        _note(at, bare, state)
        swallowed = lets_pass or ("if" if asked and not _FAILS.search(state.text) else "")
        for command in commands.of_segment(bare, swallowed) if bare else ():
            closes = number + 1 < len(listed) and listed[number + 1][0].strip() in {"fi", "}", "esac"}
            yield ScriptCommand(at, command, conditions, state.folder, "" if closes else following)
        if segment.strip().endswith(")") and "(" in line and "$(" not in segment:
            state.folder = folder
        sign, before = following, bare


def _without_group(piece: str) -> str:
    """Return a piece without the signs of a group that begins or ends in it."""
    while piece.startswith(("(", "{ ")):
        piece = piece[1:].strip()
    while (piece.endswith(")") and piece.count(")") > piece.count("(")) or piece.endswith(" }"):
        piece = piece[:-1].strip()
    return piece


def _opened(piece: str, state: ShellState, at: int) -> tuple[str, bool]:
    """Return a piece of a line without words that open and close blocks, and whether a block asks for its outcome."""
    while piece:
        word, _, rest = piece.partition(" ")
        if word in {"then", "do", "time"}:
            piece = rest.strip()
        elif word in {"else", "fi", "done", "esac", "}"}:
            was = state.blocks.pop() if state.blocks else None
            if was and word == "else":
                state.blocks.append(was._replace(text=f"not {was.text}"))
            piece = rest.strip()
        elif begins := _BEGINS.match(piece):
            return _begun(begins[1], begins[2], state, at)
        elif (function := _FUNCTION.match(piece)) and (function[1] or function[3]):
            name = function[1] or function[2]
            if is_executable(name) or name in _PROGRAMS:
                state.effects.append(ScriptEffect("other", f"`{name}` is a function of the script", at))
            called = re.search(rf"(?m)^\s*{re.escape(name)}\b(?!\s*\()", state.text)
            state.blocks.append(ScriptCondition("" if called else f"{name} is called", at))
            piece = function[4].strip()
        else:
            break
    return piece, False


def _begun(word: str, rest: str, state: ShellState, at: int) -> tuple[str, bool]:
    """Note the condition of a block; return the command that decides about it, if it is more than a question."""
    if word == "elif" and state.blocks:
        state.blocks.pop()
    if word == "for":
        _, _, values = rest.partition(" in ")
        plain = re.search(r"(?:^|\s)[\w./-]", values)
        state.blocks.append(ScriptCondition("" if plain else f"for {rest}".strip(), at))
        return "", False
    state.blocks.append(ScriptCondition(rest.strip(), at))
    return ("", False) if word == "case" or rest.partition(" ")[0] in _ASKS - {"!"} else (rest.removeprefix("! "), True)


def _ended(ends: re.Match[str], conditions: tuple[ScriptCondition, ...], sign: str, state: ShellState, at: int) -> None:
    """Note what an exit without a failure means for the commands after it."""
    code = ends[2] or ""
    if (code and not code.startswith("$") and code != "0") or (sign == "||" and code != "0"):
        return
    inside = [condition.text for condition in conditions if condition not in state.ended]
    text = f"not {' and '.join(inside)}" if inside else f"{NEVER}`{ends[0].strip()}` comes first"
    state.ended.append(ScriptCondition(text, at))


def joined(folder: str, target: str) -> str:
    """Return the folder that a relative path leads to; the top of the repository is `.`."""
    plain = re.sub(r"\$\{\{\s*github\.workspace\s*\}\}|\$\{?GITHUB_WORKSPACE\}?|\$\{?PWD\}?", ".", target.strip("\"'"))
    if plain.startswith(("/", "~", "$", ".")) and plain != ".." and not plain.startswith("../"):
        begins = plain.removeprefix("./").rstrip("/") or "."
        return begins if plain.startswith(("/", "~", "$")) or folder == "." else f"{folder}/{begins}"
    parts = [part for part in folder.split("/") if part not in {"", "."}]
    for part in plain.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts) or "."


def _note_files(at: int, line: str, state: ShellState) -> None:
    """Note variables and folders of programs that the line hands to later steps by a file."""
    target = _FILE_OF_VARIABLES.search(line)
    if not target or not _WRITES.search(line):
        return
    if target[1] == "GITHUB_PATH":
        match = _ADDED_PATH.search(line)
        added = (match[1] or match[2]).strip() if match else None
        if added is None or _in_repository(added):
            shown = added or line
            state.effects.append(ScriptEffect("other", f"programs in `{shown[:60]}` come first", at))
    elif written := _WRITTEN.search(line):
        state.effects.append(ScriptEffect("variable", f"{written[1]}={written[2]}", at))
    else:
        state.effects.append(ScriptEffect("other", f"`{line[:60]}` sets variables that are not written there", at))


def _in_repository(path: str) -> bool:
    if _INSTALLED.search(path):
        return False
    return _OF_THE_REPOSITORY.search(path) is not None or not _ELSEWHERE.match(path)


def _note(at: int, bare: str, state: ShellState) -> None:
    if exported := _EXPORTED.match(bare):
        value = exported[2].strip("\"'")
        in_repository = exported[1] == "PATH" and any(
            _in_repository(part) for part in value.split(":") if part and not re.fullmatch(r"\$\{?PATH\}?", part)
        )
        if exported[1] != "PATH" or in_repository:
            state.effects.append(ScriptEffect("variable", f"{exported[1]}={value}", at))
    elif (alias := re.match(r"^(?:alias|Set-Alias)\s+([\w.-]+)", bare)) and (
        is_executable(alias[1]) or alias[1] in _PROGRAMS
    ):
        state.effects.append(ScriptEffect("other", f"`{alias[1]}` is an alias", at))
    elif _OTHER_COMMIT.match(bare) or (_EDITS.search(bare) and any(map(_is_of_tests, bare.split()))):
        state.effects.append(ScriptEffect("other", f"`{bare[:60]}` changes what is tested", at))


def _is_of_tests(word: str) -> bool:
    plain = word.strip("\"'>").removeprefix("./")
    return not plain.startswith("-") and (_OF_TESTS.search(plain) is not None or is_test(plain))
