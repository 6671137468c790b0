"""`verify`: a patch, a branch or the working tree judged by sealed runs alone, without any plan."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from reflectloop import config, secrets
from reflectloop.artifacts.envelope import Envelope, of_error
from reflectloop.engine.gating import approvals, remembered, sealed_environment, unjudged_commits, working_tree
from reflectloop.engine.gating.remembered import ProvenBefore
from reflectloop.engine.gating.sealed_environment import SealedEnvironment
from reflectloop.engine.run.request import VerifyObserver
from reflectloop.errors import (
    InvalidInput,
    NothingToDo,
    ReflectloopError,
    SandboxEscape,
    SecretLeak,
    UnsupportedRepository,
)
from reflectloop.sandbox import isolation
from reflectloop.state import latch, lock
from reflectloop.system import clock, files
from reflectloop.system.git import Git
from reflectloop.system.undo import on_failure
from reflectloop.terms import Isolation, Track
from reflectloop.trust import installed
from reflectloop.verification import detect, environment_key, evidence
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import apply as applying
from reflectloop.workspace import base_settings, checkout, patch, project, sessions, snapshot, workspace_registry
from reflectloop.workspace.folders import Folders, open_project_dirs
from reflectloop.workspace.record_tree import Unrecordable
from reflectloop.workspace.store import open_store

if TYPE_CHECKING:  # they load all that judges; a change that was proven before needs none of it
    from reflectloop.verification.evidence_chain import Chain
    from reflectloop.verification.sealed_trees import VerificationInput
    from reflectloop.verification.verdict import Verdict

PATCH = "changes.patch"


@dataclass(frozen=True)
class VerifyRequest:
    start: Path
    base: str | None = None
    patch: Path | None = None
    branch: str | None = None
    track: Track | None = None
    only: tuple[str, ...] = ()  # names of checks
    isolation: Isolation | None = None
    sandbox_root: Path | None = None
    wait: bool = False
    approve_file: Path | None = None
    strength: int | None = None  # the least percentage of noticed mutants; None: not measured
    session: str | None = None  # an agent's session, whose start is the base
    fresh: bool = True  # run everything, even if the same change was proven before
    quick: bool = False  # stop at the tests that depend on the change
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class VerifyOutcome(NamedTuple):
    envelope: Envelope
    verdict: Verdict | None
    folder: Path
    error: ReflectloopError | None
    before: ProvenBefore | None = None  # the earlier verification that answers, if nothing ran


class BaseAndHead(NamedTuple):
    base: str  # a tree
    head: str
    commit: str  # what HEAD says where checks run


def verify(
    request: VerifyRequest,
    observer: VerifyObserver,
    line: Callable[..., Verification] | None = None,
    again: str | None = None,
) -> VerifyOutcome:
    """Judge a change. Faults of the input are raised; faults of the change are part of the outcome.

    `again` names the verification that is judged once more, after an approval.
    """
    folders = open_project_dirs(request.start)
    folders.ensure_owned()
    with lock.hold_lock(folders.own, "verify", wait=observer.waits if request.wait else None):
        run_id = again or clock.run_id(clock.now())
        folder = folders.own / "verifications" / run_id
        with files.room_for("the verification's folder", folder):
            (folder / "logs").mkdir(parents=True, exist_ok=again is not None)
        with contextlib.nullcontext() if again else on_failure(lambda: _forget_if_empty(folder)):
            return (line or Verification)(request, folders, run_id, folder, observer).walk()


def _forget_if_empty(folder: Path) -> None:
    """Remove the folder of a verification in which nothing ran."""
    if folder.exists() and not any((folder / "logs").iterdir()):
        files.remove_tree(folder)


class Verification:
    """One change from its two sides to what is decided about it."""

    command = "verify"

    def __init__(
        self, request: VerifyRequest, folders: Folders, run_id: str, folder: Path, observer: VerifyObserver
    ) -> None:
        self.request, self.folders, self.run_id, self.folder = request, folders, run_id, folder
        self.observer = observer
        self.started, self.clock = clock.now(), clock.monotonic()
        self.warnings: list[str] = []
        self.doubts: tuple[str, ...] = ()  # possible secrets
        self.unjudged: tuple[str, ...] = ()  # commits that nobody judged and that changed what judges
        self.objects = folders.scratch / f"objects-{run_id}"
        self.patch_name = PATCH
        self._hashed = ""  # what the verdict depends on, once it is known

    def walk(self) -> VerifyOutcome:
        self.config = config.load(self.folders.root)
        secrets.use_detector(secrets.detector_for(self.config.secrets, self.folders.root))
        latch.refuse_if_stopped(self.folders.own)
        self.wall = isolation.choose_level(
            max(self.config.box.isolation, self.request.isolation or Isolation.NONE, key=lambda level: level.rank),
            self.config.box.strongest,
        )
        self.approvals = approvals.source(self.folders.root, self.request.approve_file, self.request.caller)
        self.project = project.open_project(self.folders.root)
        if self.project.mode != "git":
            raise UnsupportedRepository(
                f"{self.folders.root} is no git repository: there is no base to compare with", next_step="git init"
            )
        self.store = open_store(self.project, self.config.workspace)
        applying.undo_killed(self.project, self.store, self.folders.scratch)
        self.trees = TreeBuilder(self.store, self.folders.scratch, self.objects)
        self.objects.mkdir()
        try:
            with snapshot.reporting_git_damage():
                sides = self._sides()
            judging = base_settings.at_commit(self.project, sides.commit)
            self.config = judging.config
            self.config.refuse_without("verify.setup", "verify.checks")
            self.warnings += base_settings.warning(judging, sides.commit)
            return self._proven_before(sides) or self.judge(sides)
        except (SecretLeak, SandboxEscape) as fault:
            from reflectloop.engine.tasks import open_tasks  # noqa: PLC0415 - loads the model of plans

            place = open_tasks.FailurePlace(self.run_id, None, "", "")
            open_tasks.stop_project(self.folders, fault, place)
            if isinstance(fault, SecretLeak):
                files.remove_tree(self.folder)
            raise
        finally:
            files.remove_tree(self.objects)
            self._clear_away()

    # What is compared with what --------------------------------------------------------------------------------

    def _sides(self) -> BaseAndHead:
        git = self.project.git()
        asked = self.request
        head_commit = _commit(git, asked.branch, "git branch --all") if asked.branch else self.project.head
        assert head_commit  # noqa: S101
        session = sessions.find(self.folders.own, asked.session) if asked.session else None
        base_commit = session.commit if session else self._base(git, head_commit)
        base = session.tree if session else git.line("rev-parse", f"{base_commit}^{{tree}}")
        if asked.patch:
            head = self._patched(base, asked.patch)
        elif asked.branch:
            head = git.line("rev-parse", f"{head_commit}^{{tree}}")
        else:
            head, warnings = working_tree.record(self.project, self.trees, self.folders.scratch, head_commit, base)
            self.warnings += warnings
        self._refuse_strange(base, head)
        if asked.base is None and not asked.branch and not session:
            self._say_unjudged(git, head_commit)
        return BaseAndHead(base, head, base_commit)

    def _say_unjudged(self, git: Git, head_commit: str) -> None:
        """Say which commits the default base leaves out; ask about them if they changed what judges."""
        unjudged = unjudged_commits.find(git, self.trees, head_commit)
        if unjudged:
            self.warnings.append(unjudged.note)
            self.unjudged = tuple(unjudged.doubts)

    def _base(self, git: Git, head_commit: str) -> str:
        """Return the commit at which the change left the branch that the user names."""
        asked = self.request
        if asked.base is None and not asked.branch:
            return head_commit
        named = _commit(git, asked.base or "HEAD")
        if asked.patch:
            return named
        joint = git.attempt("merge-base", named, head_commit)
        if joint.code:
            raise InvalidInput(
                f"{asked.base or 'HEAD'} and the change have no commit in common", next_step="name another --base REV"
            )
        return os.fsdecode(joint.stdout).strip()

    def _patched(self, base: str, path: Path) -> str:
        try:
            size = path.stat().st_size
        except OSError as fault:
            raise InvalidInput(
                f"cannot read {path}: {fault.strerror}", next_step="reflectloop verify --patch FILE"
            ) from fault
        if size == 0:
            raise InvalidInput(f"{path} is empty", next_step="git diff --binary BASE > FILE")
        if size > self.config.workspace.largest_change_mb * 10**6:
            raise InvalidInput(
                f"{path} has {size / 1e6:.0f} MB; the limit is {self.config.workspace.largest_change_mb} MB",
                next_step="[workspace] largest_change_mb in reflectloop.toml",
            )
        return self.trees.patched(base, path)

    def _refuse_strange(self, base: str, head: str) -> None:
        if base == head:
            self._refuse_without_change(base)
        self.trees.refuse_kept_out(base, head)
        git = self.trees.git
        try:
            patch.refuse_large(git, base, head, self.config.workspace.largest_change_mb * 10**6)
        except Unrecordable as fault:
            raise InvalidInput(str(fault), next_step="[workspace] largest_change_mb in reflectloop.toml") from fault
        doubtful = patch.write(git, base, head, self.folder / PATCH)
        if not doubtful:
            return
        from reflectloop.verification.expected_texts import is_expected_value  # noqa: PLC0415 - few changes have doubts

        self.patch_name = patch.REDACTED
        self.doubts = tuple(
            f"{secret.path}:{secret.line}: may be a secret "
            f"({secret.finding.rule}, fingerprint {secret.finding.fingerprint})"
            for secret in doubtful
            if not is_expected_value(secret.path, self.trees.read(head, secret.path), secret.line, secret.finding.rule)
        )

    def _refuse_without_change(self, base: str) -> NoReturn:
        asked = self.request
        own_files = not asked.patch and not asked.branch
        scratch = self.folders.scratch
        if own_files and (inside := working_tree.changed_submodule(self.project, self.trees, scratch, base)):
            raise NothingToDo(
                f"only files in the submodule {inside} are changed: it is a repository of its own, and is judged there",
                next_step=f"reflectloop verify --project {shlex.quote(inside)}",
            )
        raise NothingToDo("there is no change to verify", next_step="git status")

    def _proven_before(self, sides: BaseAndHead) -> VerifyOutcome | None:
        """Return the answer of an earlier verification of the same change, unless everything should run."""
        if self.request.fresh or self.config.verify.setup:  # a set-up may install other versions
            return None
        before = remembered.find(self.folders, sides.base, sides.head, lambda: self._conditions(sides))
        if before is None:
            return None
        self.warnings += before.envelope.get("warnings", ())
        envelope = self.envelope(None, sides.base, before.envelope.get("evidence_level"), ())
        update = {"run_id": before.run_id, "next": f"reflectloop receipt verify {before.run_id}"}
        files.remove_tree(self.folder)
        return VerifyOutcome(envelope.model_copy(update=update), None, before.folder, None, before)

    def _conditions(self, sides: BaseAndHead) -> str:
        """Return the hash of all that a verdict depends on, besides the trees; computed once, before anything runs."""
        if self._hashed:
            return self._hashed
        stage, checks = self.stage(), self._checks(sides.base)
        beside = sealed_environment.beside(stage, checks, set())
        path = stage.caller.get("PATH", os.defpath)
        places = [detect.resolve(check, self.project.root, stage.caller) for check in checks]
        programs = [environment_key.program(check.command[0], path) for check in places]
        doubts = (*self.doubts, *self.unjudged, *remembered.policy_rules(self.config, self.folders.root))
        asked = (self.request.track, sorted(self.request.only), self._installed(sides), doubts, self.request.strength)
        facts = (remembered.program(), sides.commit, stage.settings.model_dump(mode="json"), asked, places, programs)
        places_of_work = (sealed_environment.surroundings(stage, sides.base, beside, {}), self.wall.by, self.command)
        self._hashed = remembered.hashed((*facts, *places_of_work))
        return self._hashed

    # Judging ---------------------------------------------------------------------------------------------------

    def judge(self, sides: BaseAndHead) -> VerifyOutcome:
        from reflectloop.engine.gating import sealed_judgement  # noqa: PLC0415
        from reflectloop.verification.evidence_chain import Chain  # noqa: PLC0415

        conditions = self._conditions(sides)
        chain = Chain(self.folder / evidence.FILE)
        verdict = sealed_judgement.judge(self.stage(), self.case(sides), chain, sides.commit)
        approved = [item.reason.finding for item in verdict.approved]
        self.warnings += self.approvals.unused(sides.base, sides.head, approved)
        error = sealed_judgement.as_error(verdict, self.run_id)
        envelope = self._envelope(verdict, error)
        self._write(verdict, chain, envelope, conditions)
        return VerifyOutcome(envelope, verdict, self.folder, error)

    def stage(self) -> SealedEnvironment:
        return SealedEnvironment(
            self.run_id,
            self.project,
            self.trees,
            self.config,
            self.wall,
            self.request.caller,
            checkout.sandbox_root(self.project, self.request.sandbox_root or self.config.workspace.root),
            self.folders.own / "cache",
            self.folder / "logs",
            self.observer,
        )

    def case(self, sides: BaseAndHead) -> VerificationInput:
        from reflectloop.engine.gating.sealed_judgement import runs_by_itself  # noqa: PLC0415
        from reflectloop.verification.sealed_trees import VerificationInput  # noqa: PLC0415

        changes, lifted = self.trees.changes(sides.base, sides.head), self._installed(sides)
        return VerificationInput(
            sides.base,
            sides.head,
            self._checks(sides.base),
            self.request.track,
            lifted,
            self.config.verify.protect,
            required=frozenset(self.request.only) | {check.name for check in self.config.verify.checks},
            has_setup=bool(self.config.verify.setup),
            doubts=(*self.doubts, *self.unjudged, *runs_by_itself(self.config, self.folders.root, changes, lifted)),
            strength=self.request.strength,
            approved=self.approvals.known(sides.base, sides.head),
            quick=self.request.quick,
        )

    def _installed(self, sides: BaseAndHead) -> tuple[str, ...]:
        """Return settings that hold exactly what the user let `install` write: no agent's doing."""
        changes = self.trees.changes(sides.base, sides.head)
        return tuple(item.path for item in changes if installed.wrote(self.folders.root / item.path, item.after))

    def _checks(self, base: str) -> list[DetectedCheck]:
        checks = checks_of_tree(self.config, self.folders, self.trees, base)
        wanted = self.request.only
        unknown = [name for name in wanted if name not in {check.name for check in checks}]
        if unknown:
            known = ", ".join(check.name for check in checks) or "none"
            raise InvalidInput(f"there is no check {unknown[0]!r}; known: {known}", next_step="reflectloop detect")
        return [check for check in checks if not wanted or check.name in wanted or check.kind == "build"]

    def _envelope(self, verdict: Verdict, error: ReflectloopError | None) -> Envelope:
        written = (evidence.RECEIPT, evidence.FILE, self.patch_name, "verdict.json")
        self.warnings += verdict.notes
        return self.envelope(error, verdict.base_tree, verdict.level, written)

    def envelope(
        self, error: ReflectloopError | None, base: str, level: str | None, written: Sequence[str]
    ) -> Envelope:
        stamp, name = clock.stamp(self.started), self.command
        plain = of_error(name, stamp, error) if error else Envelope(command=name, timestamp=stamp, status="OK")
        return plain.model_copy(
            update={
                "artifacts_written": [
                    os.fspath((self.folder / name).relative_to(self.folders.root)) for name in written
                ],
                "next": error.next_step if error else f"reflectloop receipt verify {self.run_id}",
                "run_id": self.run_id,
                "base_tree": base,
                "isolation": str(self.wall.level),
                "isolation_by": self.wall.by,
                "sandbox_mode": "git",
                "evidence_level": level,
                "duration_ms": round((clock.monotonic() - self.clock) * 1000),
                "warnings": [*dict.fromkeys(self.warnings)],
            }
        )

    def _write(self, verdict: Verdict, chain: Chain, envelope: Envelope, conditions: str) -> None:
        from reflectloop.engine.gating import verdict_export  # noqa: PLC0415
        from reflectloop.engine.run import junit_sarif  # noqa: PLC0415
        from reflectloop.verification.evidence_chain import write_receipt  # noqa: PLC0415

        document = junit_sarif.pretty(
            {"envelope": envelope.model_dump(mode="json"), "data": verdict_export.as_data(verdict)}
        )
        files.write_atomic(self.folder / "verdict.json", document)
        facts = verdict_export.receipt_facts(verdict, self.run_id) | {remembered.CONDITIONS: conditions}
        write_receipt(self.folder, chain, facts, [self.patch_name, "verdict.json"])

    def _clear_away(self) -> None:
        for entry in workspace_registry.stale(self.folders.own, self.config.workspace.keep_failed):
            workspace_registry.remove(entry)


def _commit(git: Git, name: str, known: str = "git log --oneline") -> str:
    """Return the commit that a name means; `known` is the command that lists the names there are."""
    result = git.attempt("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if result.code:
        raise InvalidInput(f"there is no commit {name!r} here", next_step=known)
    return os.fsdecode(result.stdout).strip()


def checks_of_tree(settings: config.Config, folders: Folders, trees: TreeBuilder, tree: str) -> list[DetectedCheck]:
    """Return the checks of a project whose files are those of a tree."""

    def look() -> list[DetectedCheck]:
        tree_files = detect.ProjectFiles(trees.listing(tree), lambda path: trees.read(tree, path))
        return detect.known_checks(settings, tree_files)

    return look() if settings.verify.checks else remembered.checks(folders, tree, look)


def detected(start: Path, caller: Mapping[str, str]) -> list[DetectedCheck]:
    """Return the checks that `verify` would run on the files as they are."""
    root = project.locate(start)
    checks = detect.known_checks(config.load(root), detect.ProjectFiles.of_folder(root))
    return [detect.resolve(check, root, caller) for check in checks]
