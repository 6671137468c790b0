"""Run every inspection of a patch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from reflectloop.verification.protected import is_test
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import ci, config, doctests, files, powers, recipes, source, special
from reflectloop.verification.tampering.effective_files import with_makefiles
from reflectloop.verification.tampering.python import tests as python
from reflectloop.verification.tampering.text import tests as text
from reflectloop.verification.tampering.text import uncollected


def look(
    changes: Sequence[ChangedFile],
    context: Mapping[str, bytes] | None = None,
    project: powers.SurroundingFiles | None = None,
) -> list[TamperFinding]:
    """Return all findings by path and line; `context` has the tests and settings of base, `project` the other files.

    Tests and settings that the patch changes do not count.
    """
    changed = [item for item in changes if item.before != item.after or item.mode_before != item.mode_after]
    looks = (
        text.look,
        files.look_at_scripts,
        files.look_at_hooks,
        files.look_at_pre_commit,
        files.look_at_data,
        source.look,
        doctests.look,
    )
    findings = [item for inspect in looks for item in _run(inspect, changed)]
    around = project or powers.SurroundingFiles()
    findings += _run(lambda part: python.look(part, lambda path: _versions(path, changed, around)), changed)
    findings += _run(lambda part: powers.look(part, around), changed)
    paths = {change.path for change in changed}
    unchanged = {path: data for path, data in (context or {}).items() if path not in paths}
    as_read = with_makefiles(changed, unchanged)
    for compare in (config.look, recipes.look, ci.look):
        findings += _run(lambda part, compare=compare: compare(part, as_read.unchanged), as_read.changes)  # type: ignore[misc]
    findings = _dropped_once(findings)
    context = {path: data for path, data in (context or {}).items() if is_test(path)}
    findings += _run(lambda part: special.look_for_inputs(part, context or {}), changed)
    findings += _run(lambda part: special.look_for_rows(part, context or {}), changed)
    findings += _run(lambda part: uncollected.look_at_lists(part, context or {}), changed)
    answered = {(item.path, item.line) for item in findings if item.rule == "test-input-special-cased"}
    singled = _run(lambda part: special.look_for_numbers(part, context or {}), changed)
    findings += [item for item in singled if (item.path, item.line) not in answered]
    once = {_identity(item): item for item in reversed(findings)}
    return sorted(once.values(), key=lambda item: (item.path, item.line or 0, item.rule, item.what))


def _versions(path: str, changed: Sequence[ChangedFile], around: powers.SurroundingFiles) -> list[bytes]:
    """Return the text of a source, before and after the patch if it changes there."""
    for change in changed:
        if change.path == path:
            return [text for text in (change.before or b"", change.after) if text is not None]
    data = around.head_file(path)
    return [] if data is None else [data]


def _run(
    inspect: Callable[[Sequence[ChangedFile]], Iterable[TamperFinding]], changes: Sequence[ChangedFile]
) -> list[TamperFinding]:
    """Run one inspection on all changes; if code is nested too deeply, run it per file and report that file."""
    try:
        return list(inspect(changes))
    except RecursionError:
        if len(changes) == 1:
            message = "nested too deeply to be read"
            return [TamperFinding("too-deep", changes[0].path, 1, message, "suspect")]
        return [finding for change in changes for finding in _run(inspect, [change])]


def _dropped_once(findings: Sequence[TamperFinding]) -> list[TamperFinding]:
    """Return the findings, a version that several files drop only where it is dropped first."""
    reported = set[str]()
    remaining = []
    for finding in findings:
        if not (finding.what.startswith("no longer runs with ") and finding.what in reported):
            remaining.append(finding)
        reported.add(finding.what)
    return remaining


def _identity(finding: TamperFinding) -> tuple[object, ...]:
    """Return the key that makes a finding unique; a skip mark on a class, which skips all its tests, counts once."""
    return finding[:3] if finding.rule.startswith("skip") else finding
