"""`scan`: look for secrets in files, in staged changes and in commits; report places, never values."""

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
from reflectloop.workspace import git_answers, project, repository, traps
from reflectloop.workspace.added_lines import AddedLines
from reflectloop.workspace.record_tree import Unrecordable

_PATIENCE_S = 5.0  # before looking if git is blocked while it lists the files of a repository
_LISTING_S = 600.0  # that listing them may take
_CHUNK = 1 << 20
_PRAGMA = re.compile(rb"allowlist-secret why=(?:TEST_VECTOR|DOCS_EXAMPLE|FIXTURE)\b")
_DIFF = (
    "-U0",
    "--text",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--ignore-submodules=none",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


class LocatedSecret(NamedTuple):
    """A secret finding with its place."""

    path: str
    line: int
    rule: str
    grade: str
    fingerprint: str
    commit: str | None = None
    also: tuple[int, ...] = ()  # other lines of the file with the same value


class UnreadableFile(NamedTuple):
    path: str
    reason: str


class ScanReport(NamedTuple):
    findings: list[LocatedSecret]
    unread: list[UnreadableFile]
    links: tuple[tuple[str, str], ...] = ()  # named by the user: the link, whose text was scanned, and where it leads

    @property
    def clean(self) -> bool:
        """Return True if no secret was found and every file was read. An identifier is no secret."""
        return not self.secrets and not self.unread

    @property
    def secrets(self) -> list[LocatedSecret]:
        return [finding for finding in self.findings if finding.grade != "identifier"]

    def as_data(self) -> dict[str, Any]:
        return {
            "clean": self.clean,
            "findings": [finding._asdict() for finding in self.findings],
            "unread": [file._asdict() for file in self.unread],
            "links": [{"path": path, "leads_to": target} for path, target in self.links],
        }


class ScanSettings(NamedTuple):
    """The project whose settings apply, its detector and its baseline."""

    root: Path
    detector: Detector
    baseline: Path


def read_settings(start: Path, *, with_baseline: bool = True, identifiers: bool = False) -> ScanSettings:
    """Read the project's settings and apply its secret rules to this process."""
    root = project.locate(start)
    settings = config.load(root).secrets
    where = root / (settings.baseline or baseline.DEFAULT)
    if not with_baseline or (settings.baseline and not where.exists()):
        settings = settings.model_copy(update={"baseline": None})
    secrets.use_detector(secrets.detector_for(settings, root, fillers=True, identifiers=identifiers))
    return ScanSettings(root, secrets.current_detector(), where)


def stream(detector: Detector, source: IO[bytes], name: str) -> ScanReport:
    """Scan a stream. Pragmas are not honoured in it."""
    scanner = detector.scanner()
    while chunk := source.read(_CHUNK):
        scanner.feed(chunk)
    scanner.finish()
    return ScanReport(_grouped(_locate(name, finding) for finding in scanner.findings), [])


def _locate(path: str, finding: SecretFinding, commit: str | None = None, line: int | None = None) -> LocatedSecret:
    at = finding.line if line is None else line
    return LocatedSecret(path, at, finding.rule, finding.grade, finding.fingerprint, commit)


def _grouped(findings: Iterable[LocatedSecret]) -> list[LocatedSecret]:
    """Return each value once per file and commit, at its first line, with its other lines."""
    groups: dict[tuple[str, str, str | None], list[LocatedSecret]] = {}
    for secret in findings:
        groups.setdefault((secret.path, secret.fingerprint, secret.commit), []).append(secret)
    out = []
    for group in groups.values():
        lines = sorted({secret.line for secret in group})
        first = max(group, key=lambda secret: secret.grade == "certain")
        out.append(first._replace(line=lines[0], also=tuple(lines[1:])))
    return out


def tree(here: ScanSettings, targets: Iterable[Path]) -> ScanReport:
    """Scan files and folders; in a repository, what git tracks or could track. Of a link, its text is scanned."""
    report, links = ScanReport([], []), []
    for target in (path.absolute() for path in targets):
        if not os.path.lexists(target):
            raise InvalidInput(f"{target} does not exist", next_step="reflectloop scan --help")
        if target.is_symlink() and target.exists():
            links.append((files.display(os.fsencode(target)), files.display(os.fsencode(target.resolve()))))
        repository = _Repository.around(target)
        for name in _names(target, repository, report.unread):
            _scan_into(report, here, name, repository)
    return report._replace(links=tuple(links))


def _scan_into(report: ScanReport, here: ScanSettings, name: bytes, repository: _Repository | None) -> None:
    """Scan one file and add its findings to the report."""
    path = files.display(name.removeprefix(os.fsencode(here.root) + b"/"))
    try:
        findings = _scan_file(here.detector, name)
        if findings and repository:
            findings = repository.without_allowed(name, findings)
    except FileNotFoundError:
        return  # tracked, and removed from the working tree
    except OSError as fault:
        report.unread.append(UnreadableFile(path, fault.strerror or str(fault)))
        return
    report.findings.extend(_grouped(_locate(path, finding) for finding in findings))


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
            path = os.path.join(name, inside)  # noqa: PTH118
            # git lists a nested repository only by its name.
            yield from _walk(path, unread) if os.path.isdir(path) and not os.path.islink(path) else (path,)  # noqa: PTH112, PTH114
    else:
        yield from _walk(name, unread)


def _walk(top: bytes, unread: list[UnreadableFile]) -> Iterator[bytes]:
    stack = [top]
    while stack:
        folder = stack.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted((entry for entry in listing if entry.name != b".git"), key=lambda entry: entry.name)
        except OSError as fault:  # not readable, or deeper than a path can name
            unread.append(UnreadableFile(files.display(folder), fault.strerror or str(fault)))
            continue
        yield from (entry.path for entry in entries if not entry.is_dir(follow_symlinks=False))
        stack += [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]


class _Repository(NamedTuple):
    """The repository around a scanned path."""

    root: bytes
    git: Git

    @classmethod
    def around(cls, target: Path) -> _Repository | None:
        folder = target if target.is_dir() and not target.is_symlink() else target.absolute().parent
        place = repository.find(folder.resolve())
        answer = git_answers.locate(place.root) if place else None
        if place is None or answer is None or answer.code:
            return None
        git_answers.refuse_elsewhere(place, answer)
        git_answers.refuse_named_pipes(place)
        return cls(os.fsencode(place.root), Git(cwd=folder))

    def names(self, target: Path) -> list[bytes]:
        argv = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        try:
            listed = git_answers.ask(target, *argv, seconds=_PATIENCE_S)
        except UnsupportedRepository:  # slow, or blocked by a pipe that git reads in the working tree
            _refuse_traps(Path(os.fsdecode(self.root)))
            listed = git_answers.ask(target, *argv, seconds=_LISTING_S)
        if listed.code:
            reason = listed.stderr.decode("utf-8", "replace").strip()
            raise UnsupportedRepository(f"git cannot list the files of {target}: {reason}", next_step="git fsck")
        return sorted(dict.fromkeys(paths(listed.stdout)))

    def without_allowed(self, name: bytes, findings: list[SecretFinding]) -> list[SecretFinding]:
        """Return the findings without those in a line with a pragma that is in HEAD as well."""
        with open(name, "rb") as file:  # noqa: PTH123
            wanted = {finding.line for finding in findings}
            marked = {n: line for n, line in enumerate(file, 1) if n in wanted and _PRAGMA.search(line)}
        if not marked:
            return findings
        inside = os.path.relpath(os.path.realpath(name), os.path.realpath(self.root))
        tracked = self.git.attempt("cat-file", "blob", f"HEAD:{os.fsdecode(inside)}").stdout.splitlines()
        known = {line.strip() for line in tracked}
        return [item for item in findings if item.line not in marked or marked[item.line].strip() not in known]


def _refuse_traps(root: Path) -> None:
    try:
        traps.refuse_traps(root)
    except Unrecordable as fault:
        raise UnsupportedRepository(
            f"git cannot list the files of {root}: {fault}", next_step=f"remove {fault.names[0]}"
        ) from fault


def staged(detector: Detector, root: Path) -> ScanReport:
    """Scan the lines and names that the next commit adds. Pragmas are not honoured: they are not in HEAD yet."""
    added = AddedLines(detector)
    _git(root, added.feed, "diff", "--cached", *_DIFF)
    return ScanReport(_grouped(_locate(*item) for item in added.finish()), [])


def between(detector: Detector, root: Path, range_: str) -> ScanReport:
    """Scan the lines and names that each commit of a range adds, and its message."""
    if ".." not in range_ or range_.startswith("-"):
        raise InvalidInput(f"{range_!r} is not a range", next_step="reflectloop scan --range main..HEAD")
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
        range_,
    )
    messages: list[bytes] = []
    _git(root, messages.append, "log", "--format=%H%n%B%x00", "--end-of-options", range_)
    secrets_ = [_locate(*item) for item in added.finish()]
    for entry in b"".join(messages).split(b"\0"):
        commit, _, text = entry.strip(b"\n").partition(b"\n")
        secrets_ += [_locate("(message)", finding, commit.decode()) for finding in detector.scan(text)]
    return ScanReport(_grouped(secrets_), [])


def _git(root: Path, take: Callable[[bytes], None], *args: str) -> None:
    try:
        Git(cwd=root).stream(take, *args)
    except GitFailed as fault:
        raise InvalidInput(f"git failed: {fault.stderr}", next_step="reflectloop scan --help") from fault


def answer(detector: Detector, question: dict[str, Any]) -> dict[str, Any]:
    """Answer one line of `--jsonl`: the same `id`, and the findings in its `text`."""
    text = question.get("text")
    if not isinstance(text, str):
        raise InvalidInput("each line of --jsonl is an object with 'id' and 'text'")
    findings = detector.scan(text.encode("utf-8", "surrogatepass"))
    return {"id": question.get("id"), "findings": [finding._asdict() for finding in findings]}


def write_baseline(path: Path, report: ScanReport) -> int:
    """Write the findings as the accepted baseline; return the number of entries."""
    entries = {(secret.path, secret.fingerprint): secret for secret in report.secrets}
    keys = ("path", "rule", "fingerprint")
    baseline.write_baseline(path, [{key: secret._asdict()[key] for key in keys} for secret in entries.values()])
    return len(entries)


def sarif(report: ScanReport) -> dict[str, Any]:
    rules = [{"id": name} for name in sorted({secret.rule for secret in report.findings})]
    driver = {"name": "reflectloop", "version": reflectloop.__version__, "rules": rules}
    notes = [
        {"level": "error", "message": {"text": f"{file.path} could not be read: {file.reason}"}}
        for file in report.unread
    ]
    invocation = {"executionSuccessful": not report.unread, "toolExecutionNotifications": notes}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "results": [_result(secret) for secret in report.findings],
            }
        ],
    }


def _place(path: str, line: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": path}}
    if line:  # 0: the name itself
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}


def _result(secret: LocatedSecret) -> dict[str, Any]:
    is_secret = secret.grade != "identifier"
    return {
        "ruleId": secret.rule,
        "level": {"certain": "error", "likely": "warning"}.get(secret.grade, "note"),
        "message": {
            "text": f"a {secret.grade} secret ({secret.rule})" if is_secret else f"an identifier ({secret.rule})"
        },
        "locations": [_place(secret.path, secret.line)],
        **({"relatedLocations": [_place(secret.path, line) for line in secret.also]} if secret.also else {}),
        "partialFingerprints": {"reflectloop/v1": secret.fingerprint},
    }
