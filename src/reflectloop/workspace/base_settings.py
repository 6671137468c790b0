"""The settings that judge a change: as the commit has them at which the change began, not as the work tree has them."""

from __future__ import annotations

from reflectloop import config
from reflectloop.config import JudgingSettings
from reflectloop.workspace.project import Project


def at_commit(home: Project, commit: str | None) -> JudgingSettings:
    """Return the settings by which a change since a commit is judged. A folder without git has no other file."""
    if home.mode != "git" or not commit:
        active = config.load(home.root)
        return JudgingSettings(active, (), config.judging_grant(active))
    blob = home.git().attempt("cat-file", "blob", f"{commit}:{config.NAME}")
    return config.judging(home.root, None if blob.code else blob.stdout)


def warning(settings: JudgingSettings, commit: str) -> list[str]:
    """Return what to say about settings in the work tree that do not count, or count for this command alone."""
    if settings.by_flag:
        names = ", ".join(settings.by_flag)
        return [f"[verify] {names} of {config.NAME} in the work tree judged, which commit {commit[:12]} does not have"]
    if not settings.differing:
        return []
    names = ", ".join(settings.differing)
    judged = f"[verify] {names} of {config.NAME} as of commit {commit[:12]} judged"
    why = "the file in the work tree has other values, which count once it is committed or trusted"
    return [f"{judged}: {why} (reflectloop trust)"]
