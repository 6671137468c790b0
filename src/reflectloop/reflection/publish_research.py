"""Copies of reflections, revised outputs and anti-patterns at the reflection protocol's paths. Never read back."""

from __future__ import annotations

from pathlib import Path

from reflectloop import languages, secrets
from reflectloop.errors import NoSpace
from reflectloop.reflection import ticket_store
from reflectloop.reflection.reflection_report import AntiPattern, Reflection
from reflectloop.system import files
from reflectloop.system.patterns import lazy
from reflectloop.workspace.folders import Folders

DATA, PATTERNS, TOOLS = Path("research_data"), Path("knowledge/anti_patterns"), Path("knowledge/reflections")
_NOT_A_NAME = lazy(r"[^\w.-]+")
_LONGEST = 80


def publish(folders: Folders, ticket_id: str, number: int, report: Reflection, revised: Path | None) -> list[str]:
    """Write the copies of one round. Faults become warnings; they never change the outcome."""
    for place in (DATA, PATTERNS.parent, PATTERNS):
        if (folders.root / place).is_symlink():
            return [f"nothing was published: {place} is a link"]
    try:
        _publish(folders.root, ticket_id, number, report, revised)
    except (OSError, NoSpace) as fault:
        return [f"not all was published under {DATA} and {PATTERNS.parent}: {fault}"]
    return []


def _publish(root: Path, ticket_id: str, number: int, report: Reflection, revised: Path | None) -> None:
    name = f"reflection_{ticket_id}{ticket_store.round_mark(number)}.json"
    ticket_store.write(root / DATA / name, languages.texts(report.model_dump(mode="json")))
    if revised:
        files.copy_atomic(revised, root / DATA / revised.name)
    if report.anti_pattern:
        pattern = report.anti_pattern
        path = root / PATTERNS / f"{file_name(languages.line(pattern.pattern_name))}.md"
        files.write_atomic(path, secrets.current_detector().redact(languages.document(page(pattern, ticket_id))))


def publish_tool_failure(folders: Folders, written: Path) -> list[str]:
    """Copy the diagnosis of a failed tool call. Faults become warnings."""
    if any((folders.root / place).is_symlink() for place in (TOOLS.parent, TOOLS)):
        return [f"nothing was published: {TOOLS} is a link"]
    try:
        files.copy_atomic(written, folders.root / TOOLS / written.name)
    except (OSError, NoSpace) as fault:
        return [f"not published under {TOOLS}: {fault}"]
    return []


def file_name(name: str) -> str:
    return _NOT_A_NAME.sub("-", name).strip("-.")[:_LONGEST] or "pattern"


def page(pattern: AntiPattern, ticket_id: str) -> str:
    symptoms = "\n".join(f"- {symptom}" for symptom in pattern.symptoms)
    kind = f"{pattern.error_type} {pattern.error_type.english} ({pattern.error_type.chinese})"
    return (
        f"# {pattern.pattern_name}\n\nerror_type: {kind}\nticket: {ticket_id}\n\n"
        f"## Symptoms\n\n{symptoms}\n\n## Prevention\n\n{pattern.prevention}\n"
    )
