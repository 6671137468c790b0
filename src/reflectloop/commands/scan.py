"""Looks for secrets in files, in what git is about to take, and in what it took; says where, never what."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import reflectloop
from reflectloop import config, secrets
from reflectloop.errors import InvalidInput, UnsupportedRepository
from reflectloop.secrets import Detector, SecretFinding, baseline
from reflectloop.system import files
from reflectloop.system.git import Git, GitFailed, paths
from reflectloop.workspace import project, repository
from reflectloop.workspace.added_lines import AddedLines

_LISTING_S = 600.0  # that listing the files of a repository may take
_CHUNK = 1 << 20
_PRAGMA = re.compile(rb"allowlist-secret why=(?:TEST_VECTOR|DOCS_EXAMPLE|FIXTURE)\b")
_DIFF = (
    "-U0",
    "--text",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


class LocatedSecret(NamedTuple):
    """A finding and where it stands."""

    path: str
    line: int
    rule: str
    grade: str
    fingerprint: str
    commit: str | None = None
    also: tuple[int, ...] = ()  # further lines of the same file with the same value


class UnreadableFile(NamedTuple):
    path: str
    reason: str


class ScanReport(NamedTuple):
    findings: list[LocatedSecret]
    unread: list[UnreadableFile]

    @property
    def clean(self) -> bool:
        """What could not be looked at is not clean."""
        return not self.findings and not self.unread

    def as_data(self) -> dict[str, Any]:
        return {
            "clean": self.clean,
            "findings": [finding._asdict() for finding in self.findings],
            "unread": [file._asdict() for file in self.unread],
        }


class ScanSettings(NamedTuple):
    """The project whose settings hold."""

    root: Path
    detector: Detector
    baseline: Path


def ground(start: Path, *, with_baseline: bool = True) -> ScanSettings:
    """Read the settings; from here on the process looks for what they say."""
    root = project.locate(start)
    settings = config.load(root).secrets
    where = root / (settings.baseline or baseline.DEFAULT)
    if not with_baseline or (settings.baseline and not where.exists()):
        settings = settings.model_copy(update={"baseline": None})
    secrets.use(secrets.of(settings, root, fillers=True))
    return ScanSettings(root, secrets.current(), where)


def stream(detector: Detector, source: IO[bytes], name: str) -> ScanReport:
    """What comes on a stream. No pragma counts there."""
    scanner = detector.scanner()
    while chunk := source.read(_CHUNK):
        scanner.feed(chunk)
    scanner.finish()
    return ScanReport(_grouped(_found(name, one) for one in scanner.findings), [])


def _found(path: str, one: SecretFinding, commit: str | None = None, line: int | None = None) -> LocatedSecret:
    return LocatedSecret(path, one.line if line is None else line, one.rule, one.grade, one.fingerprint, commit)


def _grouped(findings: Iterable[LocatedSecret]) -> list[LocatedSecret]:
    """Return each value once for each file and commit, at its first line, with the other lines it stands on."""
    groups: dict[tuple[str, str, str | None], list[LocatedSecret]] = {}
    for found in findings:
        groups.setdefault((found.path, found.fingerprint, found.commit), []).append(found)
    out = []
    for group in groups.values():
        lines = sorted({found.line for found in group})
        chief = max(group, key=lambda found: found.grade == "certain")
        out.append(chief._replace(line=lines[0], also=tuple(lines[1:])))
    return out


def tree(here: ScanSettings, targets: Iterable[Path]) -> ScanReport:
    """Files and folders: of a repository what it tracks or could, of others everything."""
    report = ScanReport([], [])
    for target in (given.absolute() for given in targets):
        if not os.path.lexists(target):
            raise InvalidInput(f"{target} is not there", next_step="reflectloop scan --help")
        repository = _Repository.around(target)
        for name in _names(target, repository, report.unread):
            _look(here, name, repository, report)
    return report


def _look(here: ScanSettings, name: bytes, repository: _Repository | None, report: ScanReport) -> None:
    shown = files.display(name.removeprefix(os.fsencode(here.root) + b"/"))
    try:
        found = _scan_file(here.detector, name)
        if found and repository:
            found = repository.without_allowed(name, found)
    except FileNotFoundError:
        return  # tracked, and removed from the working tree
    except OSError as fault:
        report.unread.append(UnreadableFile(shown, fault.strerror or str(fault)))
        return
    report.findings.extend(_grouped(_found(shown, one) for one in found))


def _scan_file(detector: Detector, name: bytes) -> list[SecretFinding]:
    if os.path.islink(name):  # noqa: PTH114 - bytes names
        return detector.scan(os.readlink(name))  # noqa: PTH115
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        scanner = detector.scanner()
        while chunk := file.read(_CHUNK):
            scanner.feed(chunk)
        scanner.finish()
    return scanner.findings


def _names(target: Path, repository: _Repository | None, unread: list[UnreadableFile]) -> Iterator[bytes]:
    name = os.fsencode(target)
    if not target.is_dir() or target.is_symlink():
        yield name
    elif repository:
        for inside in repository.names(target):
            whole = os.path.join(name, inside)  # noqa: PTH118
            # A repository inside the repository is listed by its name alone.
            yield from _walk(whole, unread) if os.path.isdir(whole) and not os.path.islink(whole) else (whole,)  # noqa: PTH112, PTH114
    else:
        yield from _walk(name, unread)


def _walk(top: bytes, unread: list[UnreadableFile]) -> Iterator[bytes]:
    stack = [top]
    while stack:
        folder = stack.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted((one for one in found if one.name != b".git"), key=lambda one: one.name)
        except OSError as fault:  # closed to us, or deeper than a path can name
            unread.append(UnreadableFile(files.display(folder), fault.strerror or str(fault)))
            continue
        yield from (one.path for one in entries if not one.is_dir(follow_symlinks=False))
        stack += [one.path for one in reversed(entries) if one.is_dir(follow_symlinks=False)]


class _Repository(NamedTuple):
    """The repository that holds what is looked at."""

    root: bytes
    git: Git

    @classmethod
    def around(cls, target: Path) -> _Repository | None:
        folder = target if target.is_dir() and not target.is_symlink() else target.absolute().parent
        found = repository.find(folder.resolve())
        if found is None or repository.ask(found.root, "rev-parse", "--show-toplevel").code:
            return None
        repository.refuse_elsewhere(found)
        repository.refuse_named_pipes(found)
        return cls(os.fsencode(found.root), Git(cwd=folder))

    def names(self, target: Path) -> list[bytes]:
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        listed = repository.ask(target, *words, seconds=_LISTING_S)
        if listed.code:
            reason = listed.stderr.decode("utf-8", "replace").strip()
            raise UnsupportedRepository(f"git cannot list the files of {target}: {reason}", next_step="git fsck")
        return sorted(dict.fromkeys(paths(listed.stdout)))

    def without_allowed(self, name: bytes, found: list[SecretFinding]) -> list[SecretFinding]:
        """Less what stands in a line with a pragma that HEAD holds too."""
        with open(name, "rb") as file:  # noqa: PTH123
            wanted = {one.line for one in found}
            marked = {n: line for n, line in enumerate(file, 1) if n in wanted and _PRAGMA.search(line)}
        if not marked:
            return found
        inside = os.path.relpath(os.path.realpath(name), os.path.realpath(self.root))
        tracked = self.git.attempt("cat-file", "blob", f"HEAD:{os.fsdecode(inside)}").stdout.splitlines()
        known = {line.strip() for line in tracked}
        return [one for one in found if one.line not in marked or marked[one.line].strip() not in known]


def staged(detector: Detector, root: Path) -> ScanReport:
    """The lines and names that the next commit adds. They are not in HEAD, so no pragma counts."""
    added = AddedLines(detector)
    _git(root, added.feed, "diff", "--cached", *_DIFF)
    return ScanReport(_grouped(_found(*one) for one in added.finish()), [])


def between(detector: Detector, root: Path, asked: str) -> ScanReport:
    """The lines and names that each commit of a range adds, and what its message says."""
    if ".." not in asked or asked.startswith("-"):
        raise InvalidInput(f"{asked!r} is no range", next_step="reflectloop scan --range main..HEAD")
    added = AddedLines(detector)
    _git(
        root,
        added.feed,
        "log",
        "-p",
        "--diff-merges=first-parent",
        "--format=%x00%H",
        *_DIFF,
        "--end-of-options",
        asked,
    )
    messages: list[bytes] = []
    _git(root, messages.append, "log", "--format=%H%n%B%x00", "--end-of-options", asked)
    found = [_found(*one) for one in added.finish()]
    for entry in b"".join(messages).split(b"\0"):
        commit, _, text = entry.strip(b"\n").partition(b"\n")
        found += [_found("(message)", one, commit.decode()) for one in detector.scan(text)]
    return ScanReport(_grouped(found), [])


def _git(root: Path, take: Callable[[bytes], None], *args: str) -> None:
    try:
        Git(cwd=root).stream(take, *args)
    except GitFailed as fault:
        raise InvalidInput(f"git could not say: {fault.stderr}", next_step="reflectloop scan --help") from fault


def answer(detector: Detector, question: dict[str, Any]) -> dict[str, Any]:
    """One line of `--jsonl`: the same `id`, and what the `text` holds."""
    text = question.get("text")
    if not isinstance(text, str):
        raise InvalidInput("each line of --jsonl is an object with 'id' and 'text'")
    found = detector.scan(text.encode("utf-8", "surrogatepass"))
    return {"id": question.get("id"), "findings": [one._asdict() for one in found]}


def write_baseline(path: Path, report: ScanReport) -> int:
    """Let stand what was found; how many entries that makes."""
    entries = {(one.path, one.fingerprint): one for one in report.findings}
    kept = ("path", "rule", "fingerprint")
    baseline.write(path, [{key: one._asdict()[key] for key in kept} for one in entries.values()])
    return len(entries)


def sarif(report: ScanReport) -> dict[str, Any]:
    rules = [{"id": name} for name in sorted({one.rule for one in report.findings})]
    driver = {"name": "reflectloop", "version": reflectloop.__version__, "rules": rules}
    told = [
        {"level": "error", "message": {"text": f"{one.path} could not be read: {one.reason}"}} for one in report.unread
    ]
    invocation = {"executionSuccessful": not report.unread, "toolExecutionNotifications": told}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "results": [_result(one) for one in report.findings],
            }
        ],
    }


def _place(path: str, line: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": path}}
    if line:  # 0: the name itself
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}


def _result(one: LocatedSecret) -> dict[str, Any]:
    return {
        "ruleId": one.rule,
        "level": "error" if one.grade == "certain" else "warning",
        "message": {"text": f"a {one.grade} secret ({one.rule})"},
        "locations": [_place(one.path, one.line)],
        **({"relatedLocations": [_place(one.path, line) for line in one.also]} if one.also else {}),
        "partialFingerprints": {"reflectloop/v1": one.fingerprint},
    }
