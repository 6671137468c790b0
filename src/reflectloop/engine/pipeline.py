"""Runs a plan: a pipeline of stages from a request to a judged patch, or to a blocker that says what stopped it.

    new run:         load → admit → prepare → execute → patch → gate
    resumed run:   reload → readmit → reopen → execute → patch → gate
    stepwise task: reload → readmit → reopen →           patch → gate    (agents or requests executed its steps)

Whatever happens, `finish_run.finish` records how the run ended, closes what it opened and writes its artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop import config, languages, policy, secrets
from reflectloop.artifacts import publish
from reflectloop.engine.requests.request_log import RequestLog
from reflectloop.engine.run import admission, finish_run, recovery
from reflectloop.engine.run.context import AdmittedRun, ExecutedRun, LoadedRun, PreparedRun, RequestedRun, Stage, extend
from reflectloop.engine.run.recovery import ResumePoint
from reflectloop.engine.run.request import NullObserver, RunObserver, RunOutcome, RunRequest
from reflectloop.engine.run.scheduler import Scheduler
from reflectloop.engine.steps.execution import CANCELLED
from reflectloop.engine.tasks import open_tasks, task_plan
from reflectloop.errors import Internal, Interrupted, ReflectloopError, StepFailed, by_code
from reflectloop.plan import load as plans
from reflectloop.plan import proof
from reflectloop.policy import AddedLineRules, code_commands
from reflectloop.sandbox import editable_installs
from reflectloop.state import events, latch, lock
from reflectloop.state.fold import Task
from reflectloop.state.transitions import TaskState
from reflectloop.system import cgroup, clock, git
from reflectloop.system.patterns import lazy
from reflectloop.terms import shorten
from reflectloop.workspace import apply as applying
from reflectloop.workspace import patch, project, secret_guard, snapshot
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders, open_project_dirs
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.record_tree import Unrecordable
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import open_store

_LEFT_OUT = "{} is a git repository of its own and is left out of the patch"
_REFUSED = "{} has a name that git keeps for itself, and is left out of the patch"
_HUNK = lazy(rb"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_SHOWN = 60  # characters of a command, in a message


def run(request: RunRequest, observer: RunObserver | None = None) -> RunOutcome:
    """Run a plan, or resume the run whose engine died. Errors after the project is known end in an outcome."""
    return _run(request, observer, recovery.find if request.resume else None)


def judge_task(request: RunRequest, observer: RunObserver | None = None) -> RunOutcome:
    """Judge the whole change of the current task once agents or requests have finished its steps."""
    return _run(request, observer, recovery.find)


def judge_again(request: RunRequest, observer: RunObserver, find: Callable[[Folders], ResumePoint]) -> RunOutcome:
    """Judge the change of a run once more, after an approval. `find` is called with the project's lock held."""
    return _run(request, observer, find)


def _run(
    request: RunRequest, observer: RunObserver | None, find: Callable[[Folders], ResumePoint] | None
) -> RunOutcome:
    folders = open_project_dirs(request.start, request.mode)
    folders.ensure_owned()
    watching = observer or NullObserver()
    with lock.hold_lock(folders.own, "run", wait=watching.waits if request.wait else None):
        point = find(folders) if find else None
        run_id = point.run.id if point else clock.run_id(clock.now())
        folder = point.folder if point else folders.open_run(run_id)
        return _Pipeline(
            RequestedRun(
                request=request, folders=folders, run_id=run_id, folder=folder, observer=watching, resume=point
            )
        ).run()


class _Pipeline:
    """Holds the value of the last stage that was reached, also when a later one raises."""

    def __init__(self, requested: RequestedRun) -> None:
        self._reached = requested

    def run(self) -> RunOutcome:
        error: ReflectloopError | None = None
        try:
            with git.room_left(self._reached.folders.own):
                self._run_stages()
        except ReflectloopError as fault:
            error = fault
        except KeyboardInterrupt:
            error = Interrupted("stopped by the user; every process of the run is dead", next_step=self._continue())
        except Exception as bug:  # noqa: BLE001 - a bug of ours still leaves a blocker, and no workspace
            error = Internal(f"{type(bug).__name__}: {bug}")
            error.__cause__ = bug
        return finish_run.finish(self._reached, error)

    def _run_stages(self) -> None:
        """Run the stages, each with the value of the one before."""
        configured = self._reach(configure(self._reached))
        point = configured.resume
        if point is None:
            admitted = self._reach(admit(self._reach(load(configured))))
            prepared = self._reach(prepare(admitted))
        else:
            readmitted = self._reach(readmit(self._reach(reload(configured, point)), point))
            prepared = self._reach(reopen(readmitted, point))
        if not prepared.is_over and not prepared.is_stepwise:
            execute(prepared)
        raise_failure(prepared)
        executed = self._reach(make_patch(prepared))
        admission.refuse_doubtful(list(executed.possible_secrets))
        self._gate(executed)

    def _gate(self, executed: ExecutedRun) -> None:
        decided_without = executed.is_over and executed.resume and not executed.resume.run.decision
        if decided_without or not _must_judge(executed):
            return
        # Imported here: a run that needs no judgement does not load the gates.
        from reflectloop.engine.gating import run_gates  # noqa: PLC0415

        judged = self._reach(run_gates.judge(executed))
        if judged.refusal:
            raise judged.refusal

    def _reach(self, stage: Stage) -> Stage:
        self._reached = stage
        return stage

    def _continue(self) -> str:
        """Return the command that continues where the run was stopped; a run without a journal starts again."""
        again = self._reached.rerun_command()
        return again.split(" run", 1)[0] + " resume" if isinstance(self._reached, PreparedRun) else again


# Load ---------------------------------------------------------------------------------------------------------------


def configure(run: RequestedRun) -> RequestedRun:
    settings = config.load(run.folders.root)
    languages.use_setting(settings.output.language)
    secrets.use_detector(secrets.detector_for(settings.secrets, run.folders.root))
    return extend(run, RequestedRun, config=settings)


def load(run: RequestedRun) -> LoadedRun:
    """Find and read the plan."""
    secret_guard.refuse_secret_text(run.request.retry_reason or "", "the reason")
    foreign = publish.foreign_latch(run.folders)
    run.warnings.extend([foreign] if foreign else [])
    latch.refuse_if_stopped(run.folders.own)
    root = run.folders.root
    path = plans.locate(root, _requested_plan(run), lambda path: project.is_tracked(root, path))
    loaded = plans.load(path)
    run.warnings.extend(loaded.warnings)
    run.observer.begins(loaded, run.run_id)
    return extend(run, LoadedRun, loaded=loaded)


def _requested_plan(run: RequestedRun) -> Path | None:
    """Return the plan that was named; `retry` runs the plan of the task that failed."""
    if run.request.retry_reason is None or run.request.plan:
        return run.request.plan
    return run.folders.root / open_tasks.latched_task(run.folders).plan_path


def reload(run: RequestedRun, point: ResumePoint) -> LoadedRun:
    """Read the plan that the run began with."""
    latch.refuse_if_stopped(run.folders.own)
    if point.plan is None:
        loaded = task_plan.loaded(run.folders, point.task, point.run)
    else:
        loaded = recovery.plan_then(point, point.plan, run.folders)
    done = [step.id for step in point.run.steps.values() if step.status in ("done", "skipped")]
    run.observer.begins(loaded, run.run_id, done)
    return extend(run, LoadedRun, loaded=loaded)


# Admit --------------------------------------------------------------------------------------------------------------


def admit(run: LoadedRun) -> AdmittedRun:
    """Refuse what may not run; take a snapshot of the project."""
    root, loaded, plan = run.folders.root, run.loaded, run.plan
    admission.refuse_agents(loaded, run.config, run.request.caller, root)
    admission.refuse_incomplete(plan)
    admission.refuse_untrusted(plan, run.config)
    admission.refuse_commands(loaded, policy.of(run.config.policy, root))
    level = admission.reach(run.config, run.request, loaded)
    opened = project.open_project(root, run.request.mode)
    store = open_store(opened, run.config.workspace)
    if applying.undo_killed(opened, store, run.folders.scratch):
        run.warnings.append("an apply was killed half way; your files were put back to what they were before it")
    base = snapshot.take_snapshot(opened, store, run.folders.scratch)
    run.warnings.extend(base.warnings)
    key = open_tasks.plan_key(run.folders, loaded.path)
    task = None if run.request.new_task else open_tasks.find_open(run.folders, key)
    return extend(
        run,
        AdmittedRun,
        level=level,
        project=opened,
        store=store,
        base=base,
        task=task,
        start_tree=base.tree,
        cleared=_clear_latch(run, task, base.tree),
    )


def _clear_latch(run: LoadedRun, task: Task | None, base_tree: str) -> events.LatchCleared | None:
    reason = run.request.retry_reason
    admission.refuse_causeless(task, reason)
    if reason is not None and task and task.latch:
        return events.LatchCleared(how="retry", reason=reason)
    return open_tasks.admit(task, run.loaded, base_tree)


def readmit(run: LoadedRun, point: ResumePoint) -> AdmittedRun:
    """Check again what may run, and continue from the tree that the last finished step left."""
    done = [name for name, step in point.run.steps.items() if step.status in ("done", "skipped")]
    admission.refuse_commands(run.loaded, policy.of(run.config.policy, run.folders.root), done)
    level = admission.reach(run.config, run.request, run.loaded)
    opened = project.open_project(run.folders.root, "copy" if point.run.mode == "copy" else "auto")
    store = open_store(opened, run.config.workspace)
    applying.undo_killed(opened, store, run.folders.scratch)
    recovery.import_objects(run.folders, store, run.run_id, warm=run.config.workspace.warm)
    run.results.extend(recovery.results(run.plan, point.run, run.folder.logs))
    if point.run.end_tree:
        tree = point.run.end_tree
    elif run.is_stepwise:
        tree = RequestLog(run.folders, store).tree_of(point.task.id, point.run)
    else:
        tree = recovery.reached(point.run, store)
    admitted = extend(
        run,
        AdmittedRun,
        level=level,
        project=opened,
        store=store,
        base=Snapshot(point.run.base_tree, point.run.base_commit, warnings=()),
        task=point.task,
        start_tree=tree,
    )
    recovery.refuse_lower(point.run.isolation, admitted.isolation_label)
    return admitted


# Prepare ------------------------------------------------------------------------------------------------------------


def prepare(run: AdmittedRun) -> PreparedRun:
    """Lay out the workspace, and open the journal of the task."""
    space = _lay_out(run)
    recovery.keep_plan(run.loaded, run.folder)
    key = open_tasks.plan_key(run.folders, run.loaded.path)
    journal, task = open_tasks.open_journal(
        run.folders, run.task, key, run.plan.title, run.started, run.observer.happened
    )
    if run.cleared:
        journal.append(run.cleared)
    journal.append(
        events.RunStarted(
            run_id=run.run_id,
            plan_hash=run.plan.hash,
            base_tree=run.base.tree,
            base_commit=run.base.commit,
            isolation=run.isolation_label,
            steps=[step.id for step in run.plan.steps],
            mode=run.project.mode,
        )
    )
    return extend(run, PreparedRun, task=task, journal=journal, workspace=space)


def reopen(run: AdmittedRun, point: ResumePoint) -> PreparedRun:
    """Lay out the workspace, and continue the journal of a run whose engine died or was paused."""
    space = _lay_out(run)
    journal = run.folders.open_journal(point.task.id, run.observer.happened)
    prepared = extend(run, PreparedRun, task=point.task, journal=journal, workspace=space)
    if run.is_over:
        return prepared
    if not run.is_stepwise or point.task.state is TaskState.PAUSED:
        journal.append(events.RunResumed(run_id=run.run_id))
        for name in point.half_done:
            journal.append(events.StepInterrupted(run_id=run.run_id, step_id=name))
    return prepared


def _lay_out(run: AdmittedRun) -> Workspace:
    space = run.open_workspace(0)
    if not run.level.mounted:
        editable_installs.refuse_editable_installs(
            run.folders.root, run.request.caller, [*map(Path, space.copied), *space.carried]
        )
    cgroup.sweep()
    for step in run.plan.steps:
        space.resolve(step.cwd)
    return space


# Execute ------------------------------------------------------------------------------------------------------------


def execute(run: PreparedRun) -> None:
    """Execute the steps; their results are added to the run as they finish."""
    if run.resume:
        recovery.refuse_deadly(run.resume)
    Scheduler(run, lambda steps, before, after: _judge_batch(run, steps, before, after)).execute_steps()
    for result in run.results:
        run.warnings.extend(_LEFT_OUT.format(name) for name in result.nested)
        run.warnings.extend(_REFUSED.format(name) for name in result.refused)
        run.warnings.extend(f"step {result.id}: redacted what may be a secret: {what}" for what in result.doubtful)


def _judge_batch(run: PreparedRun, steps: list[str], before: str, after: str) -> None:
    from reflectloop.engine.gating import run_gates  # noqa: PLC0415 - only batches need it

    run_gates.judge_batch(run, steps, before, after)


def raise_failure(run: PreparedRun) -> None:
    """Raise the first failure of the steps, also one that an earlier engine journalled before it died."""
    failed = next((result for result in run.results if result.error_code not in (None, CANCELLED)), None)
    if failed and failed.error_code:
        what = f"{_short(failed.command)}: " if failed.command else ""
        raise by_code(failed.error_code)(
            f"step {failed.id}: {what}{failed.reason}", next_step=f"reflectloop log {run.run_id} {failed.id}"
        )
    ended = run.resume.run if run.resume and run.is_over else None
    if ended and ended.error_code and not ended.decision:
        raise by_code(ended.error_code)("so its journal says; the engine died before it could say more")


# Patch --------------------------------------------------------------------------------------------------------------


def make_patch(run: PreparedRun) -> ExecutedRun:
    """Record the workspace, and write the patch."""
    space = run.workspace
    try:
        now = space.record(thorough=True)
        patch.refuse_large(space.git(), space.base_tree, now.tree, space.largest)
    except Unrecordable as fault:
        raise StepFailed(
            f"what the steps left cannot be recorded: {fault}", next_step=f"reflectloop shell {run.run_id}"
        ) from fault
    run.warnings.extend(_LEFT_OUT.format(name) for name in now.nested)
    run.warnings.extend(_REFUSED.format(name) for name in now.refused)
    secrets_added = patch.write(space.git(), space.base_tree, now.tree, run.folder.patch)
    large = None if secrets_added else patch.oversize(run.folder.patch)  # with possible secrets there is no patch
    run.warnings.extend([large] if large else [])
    return extend(
        run,
        ExecutedRun,
        touched=patch.touched_files(space.git(), space.base_tree, now.tree),
        possible_secrets=tuple(secrets_added),
    )


def _short(command: str) -> str:
    return shorten(command.strip().splitlines()[0], _SHOWN)


# Gate ---------------------------------------------------------------------------------------------------------------


def _must_judge(run: ExecutedRun) -> bool:
    """Return whether the change goes through the gates: by its plan, or because it touches what is dangerous."""
    if run.is_stepwise or proof.is_judged(run.plan):
        return True
    return _touches_protected(run.touched) or _is_dangerous(run)


def _touches_protected(touched: Sequence[TouchedFile]) -> bool:
    if not touched:
        return False
    from reflectloop.verification import protected  # noqa: PLC0415 - knows many names

    return any(protected.guard(change.path) for change in touched)


def _is_dangerous(run: ExecutedRun) -> bool:
    """Return whether a security rule matches the patch. If none does, the gates would find nothing either."""
    active = policy.of(run.config.policy, run.folders.root)
    rules = AddedLineRules(active.rules, active.allowed)
    if any(rules.judge(change.path, 0, "") for change in run.touched):
        return True
    return any(
        rules.judge(line.path, line.number, line.text) or code_commands.may_start_commands(line.path, line.text)
        for line in _added_lines(run.folder.patch)
    )


class _AddedLine(NamedTuple):
    path: str
    number: int
    text: str


def _added_lines(patch: Path) -> Iterator[_AddedLine]:
    """Yield every line that begins with a plus; a header taken for one does no harm."""
    path, number = "", 0
    with patch.open("rb") as file:
        for raw in file:
            if raw.startswith(b"+++ "):
                path = raw[4:].strip().strip(b'"').removeprefix(b"b/").decode("utf-8", "replace")
            elif hunk := _HUNK.match(raw):
                number = int(hunk[1])
            elif raw.startswith(b"+"):
                yield _AddedLine(path, max(number, 1), raw[1:].decode("utf-8", "replace").rstrip("\r\n"))
