"""The part of a brief that seldom changes: goal, contract and plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from reflectloop import config
from reflectloop.engine.brief import sizes
from reflectloop.engine.brief.model import BriefContract, BriefGoal, BriefStep, Criterion, JudgingCheck, ProtectedFolder
from reflectloop.engine.steps import prompts
from reflectloop.plan.globs import matches_any
from reflectloop.plan.model import Plan, Step, command_text
from reflectloop.state.fold import RunState, Task
from reflectloop.workspace.folders import Folders

_MOST = 20  # checks, folders or patterns of one kind
_TITLE = 200
_NOT_LISTED = ("shadow", "artefact")  # files that come into being while checks run


def goal_of(task: Task, plan: Plan | None, tokens: int) -> BriefGoal:
    if plan is None:
        return BriefGoal(text=sizes.cut(task.title, tokens))
    objective = plan.objective
    return BriefGoal(
        text=sizes.cut(objective.goal or plan.title, tokens * 3 // 4),
        done_when=sizes.cut(objective.done_when, tokens // 8),
        non_goals=sizes.first_that_fit(objective.non_goals, tokens // 8, str),
    )


def contract_of(folders: Folders, plan: Plan | None, constraints: Iterable[str], tokens: int) -> BriefContract:
    """Return the contract of a plan, or of a project without a task, with what judges every change here."""
    settings = config.load(folders.root)
    checks, protected = _of_project(folders, settings)
    share = tokens // 6
    fit = sizes.first_that_fit
    own = BriefContract(
        checks=fit(checks[:_MOST], share, lambda check: check.command + check.name),
        protected=fit(protected, share, lambda place: f"{place.folder} {place.kind} files"),
    )
    if plan is None:
        return own
    named = [
        JudgingCheck(name=name, command=check.description, kind=check.kind, source="plan")
        for name, check in sorted(plan.checks.items())
    ]
    return own.model_copy(
        update={
            "track": str(plan.settled_track),
            "acceptance": fit(
                [Criterion(id=item.id, text=item.text, check=item.check) for item in plan.acceptance],
                share,
                lambda item: item.text,
            ),
            "may_change": fit(plan.may_change[:_MOST], share // 3, str),
            "must_not_change": fit(plan.must_not_change[:_MOST], share // 3, str),
            "may_change_protected": fit(plan.may_change_protected[:_MOST], share // 3, str),
            "checks": (*fit(named[:_MOST], share, lambda check: check.command), *own.checks),
            "step_attempts": plan.limits.step_attempts,
            "constraints": fit(constraints, share, str),
        }
    )


def _of_project(folders: Folders, settings: config.Config) -> tuple[list[JudgingCheck], list[ProtectedFolder]]:
    """Return the project's own checks, and the folders with files that judge a change."""
    from reflectloop.verification import protected  # noqa: PLC0415 - both know many ecosystems
    from reflectloop.verification.detect import ProjectFiles, known_checks  # noqa: PLC0415

    files = ProjectFiles.of_folder(folders.root)
    checks = [
        JudgingCheck(name=check.name, command=command_text(check.command), kind=check.kind, source="project")
        for check in known_checks(settings, files)
    ]
    count: Counter[tuple[str, str]] = Counter()
    for path in files.paths:
        guard = protected.guard(path)
        if guard and guard.kind not in _NOT_LISTED:
            count[_top(path), guard.kind] += 1
        elif matches_any(path, settings.verify.protect):
            count[_top(path), "named"] += 1
    places = [ProtectedFolder(folder=name, kind=kind, files=count[name, kind]) for name, kind in sorted(count)]
    return sorted(checks, key=lambda check: (check.kind, check.name)), places


def _top(path: str) -> str:
    """Return the topmost folder of a file, or the file itself if it lies at the top."""
    parts = PurePosixPath(path).parts
    return f"{parts[0]}/" if len(parts) > 1 else path


def steps_of(run: RunState | None, plan: Plan | None, tokens: int) -> tuple[BriefStep, ...]:
    """Return the first steps of the plan, as many as fit; their state is told elsewhere."""
    if run is None:
        return ()
    known = {step.id: step for step in plan.steps} if plan else {}
    steps = [_step(run, plan, known.get(name), name) for name in run.steps]
    return sizes.first_that_fit(steps, tokens, lambda step: step.title + " ".join(step.checks))


def _step(run: RunState, plan: Plan | None, step: Step | None, name: str) -> BriefStep:
    title = run.titles.get(name) or (step.title if step else "")
    return BriefStep(id=name, title=prompts.one_line(title, _TITLE), checks=checks_of(plan, step))


def checks_of(plan: Plan | None, step: Step | None) -> tuple[str, ...]:
    """Return the checks of a step as lines."""
    if plan is None or step is None:
        return ()
    return tuple(
        f"{wanted.check.description}{' (must fail)' if wanted.must_fail else ''}" for wanted in plan.checks_of(step)
    )
