"""Build the trees that are judged: the patch with protected files as in base, and those with the patch's own tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reflectloop.plan.globs import matches_any as is_named
from reflectloop.plan.model import Check
from reflectloop.terms import Track
from reflectloop.verification import protected
from reflectloop.verification.protected import changes as protected_changes
from reflectloop.verification.protected import inline_tests
from reflectloop.verification.result import ChangedFile, DetectedCheck
from reflectloop.verification.tree_builder import TreeBuilder

_SOURCES = (
    ".py",
    ".js",
    ".mjs",
    ".ts",
    ".tsx",
    ".jsx",
    ".go",
    ".rs",
    ".rb",
    ".java",
    ".c",
    ".cc",
    ".cpp",
    ".php",
    ".sh",
)


@dataclass(frozen=True)
class VerificationInput:
    """The input of a verification.

    `lifted` are paths whose protection a user-confirmed plan removes.
    """

    base: str
    head: str
    checks: Sequence[DetectedCheck]
    track: Track | None = None
    lifted: Sequence[str] = ()
    protect: Sequence[str] = ()
    required: frozenset[str] = frozenset()  # checks that must have run, even if their tool is missing
    named: Mapping[str, Check] = field(default_factory=dict)
    named_by_author: bool = False  # True if a contract that came with the change names the checks
    criteria: Mapping[str, str | None] = field(default_factory=dict)  # acceptance criteria with their checks
    has_setup: bool = False
    doubts: Sequence[str] = ()  # possible secrets in the added lines, and files that run by themselves
    strength: int | None = None  # the least percentage of mutants that tests must notice; None: not measured
    approved: Mapping[str, str] = field(default_factory=dict)  # by finding id: who approved it, and why
    quick: bool = False  # stop at the tests that depend on the change


@dataclass(frozen=True)
class SealedTrees:
    """The trees of one verification, and which files of the patch stand in which."""

    changes: Sequence[ChangedFile]
    freed: Sequence[str]  # paths whose protection the plan removes
    restored: Sequence[str]  # paths that are as in base while the change is judged
    served: Sequence[ChangedFile]  # tests, and what tests read
    inline: frozenset[str]  # sources with tests inside
    tree: str  # the patch, sealed
    with_tests: str  # the patch with its own tests
    base_with_tests: str  # base with the patch's own tests
    edited: Sequence[str]  # existing tests and programs of checks that the patch edits
    unedited: str  # the patch with its new tests, and the edited ones as in base


def lay_out(trees: TreeBuilder, case: VerificationInput) -> SealedTrees:
    """Build the sealed tree, and the trees with the new version of the patch's tests."""
    changes = trees.changes(case.base, case.head)
    freed = [change.path for change in changes if is_named(change.path, case.lifted)]
    restored = [change.path for change in changes if _is_restored(change, case, freed)]
    needed = protected_changes.built_by_lists([change for change in changes if change.path not in restored], changes)
    restored = [path for path in restored if path not in needed]
    tests = [change for change in changes if protected_changes.serves_tests(change)]
    served = [change.path for change in tests]
    untouched = {*freed, *restored}
    mixed = [change for change in changes if change.path not in untouched and inline_tests.has_inline_tests(change)]
    inline = [change.path for change in mixed]
    tree = trees.with_inline_tests(trees.laid_over(case.head, case.base, restored), case.base, inline)
    still_protected = {*served} - {*freed}
    edited = [change.path for change in changes if change.path in still_protected and change.before is not None]
    tested = trees.laid_over(tree, case.head, [path for path in served if path not in edited])
    judging = _edited_programs(case, changes, freed)
    return SealedTrees(
        changes,
        freed,
        restored,
        [*tests, *mixed],
        frozenset(inline),
        tree,
        trees.laid_over(tree, case.head, [*served, *inline]),
        trees.with_inline_tests(trees.laid_over(case.base, case.head, served), case.head, inline),
        [*edited, *judging],
        trees.laid_over(tested, case.base, judging),
    )


def _is_restored(change: ChangedFile, case: VerificationInput, freed: Sequence[str]) -> bool:
    if change.path in freed:
        return False
    return protected_changes.restored(change) or is_named(change.path, case.protect)


def _edited_programs(case: VerificationInput, changes: Sequence[ChangedFile], freed: Sequence[str]) -> list[str]:
    """Return programs that checks run and the change edits together with other sources.

    A program that is the only changed source is the code under test.
    """
    plain = [
        change.path
        for change in changes
        if change.path.endswith(_SOURCES) and not protected.guard(change.path) and change.path not in freed
    ]
    edited = {change.path for change in changes if change.before is not None}
    from reflectloop.verification.plan_checks import scripts  # noqa: PLC0415 - loads all that runs checks

    programs = [path for path in scripts(case.named.values(), edited) if path in plain]
    return programs if len(plain) > len(programs) else []
