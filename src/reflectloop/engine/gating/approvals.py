"""Reads the approvals of a change: from the store of this user, and from a file that a CI job names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reflectloop.errors import Fault, InvalidInput
from reflectloop.terms import dotted, one_line, wrong_shape
from reflectloop.trust import approvals, person
from reflectloop.workspace import secret_guard

if TYPE_CHECKING:
    from reflectloop.plan import strict_yaml

_LARGEST = 1 << 20
_NEXT = "make one: reflectloop approve RUN --print"


class ApprovalEntry(BaseModel):
    """One approval in a file: it counts for this base, this change and this finding alone."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_strip_whitespace=True)

    finding: str = Field(min_length=1)
    base_tree: str = Field(min_length=1)
    tree: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    by: str = Field(min_length=1)
    text: str = ""  # the finding in words, for whoever reads the file


class _ApprovalDocument(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    approvals: list[ApprovalEntry]


class ApprovalSource(NamedTuple):
    """The approvals that count in one project: the user's own, and those of the file, if one is named."""

    root: Path
    entries: Sequence[ApprovalEntry] = ()
    name: str = ""

    def known(self, base_tree: str, tree: str) -> dict[str, str]:
        """Return who approved which finding on this change, and why."""
        own = {finding: str(approval) for finding, approval in approvals.read(self.root, base_tree, tree).items()}
        return own | {
            entry.finding: one_line(f"{entry.by}: {entry.reason} ({self.name})")
            for entry in self.entries
            if (entry.base_tree, entry.tree) == (base_tree, tree)
        }

    def unused(self, base_tree: str, tree: str, approved: Collection[str]) -> list[str]:
        """Return a warning for each entry of the file that approved nothing."""
        return [
            f"{self.name}: the approval of {entry.finding} does not count: {_mismatch(entry, base_tree, tree)}"
            for entry in self.entries
            if (entry.base_tree, entry.tree) != (base_tree, tree) or entry.finding not in approved
        ]


def _mismatch(entry: ApprovalEntry, base_tree: str, tree: str) -> str:
    if entry.base_tree != base_tree:
        return f"it is for base tree {entry.base_tree[:12]}, and this is {base_tree[:12]}"
    if entry.tree != tree:
        return f"it is for another change (tree {entry.tree[:12]}, and this is {tree[:12]})"
    return "there is no such finding on this change"


def source(root: Path, file: Path | None, caller: Mapping[str, str]) -> ApprovalSource:
    """Return the approvals that count here. A file is refused for an agent, and in the project that is judged."""
    if file is None:
        return ApprovalSource(root)
    person.refuse_programs("--approve-file", caller)
    if file.resolve().is_relative_to(root.resolve()):
        raise InvalidInput(
            f"{file} lies in the project, so the change that it approves could bring it along",
            next_step="--approve-file FILE with a file outside the project",
        )
    return ApprovalSource(root, _entries(file), file.name)


def _entries(file: Path) -> list[ApprovalEntry]:
    from reflectloop.plan import strict_yaml  # noqa: PLC0415 - few verifications are given a file

    try:
        with file.open("rb") as opened:
            raw = opened.read(_LARGEST + 1)
    except OSError as fault:
        raise InvalidInput(f"cannot read {file}: {fault.strerror}", next_step=_NEXT) from fault
    if len(raw) > _LARGEST:
        raise InvalidInput(f"{file} is larger than {_LARGEST >> 20} MB", next_step=_NEXT)
    try:
        document = strict_yaml.parse(raw)
    except strict_yaml.UnreadableYaml as refused:
        raise _no_approvals(file, [refused.fault]) from refused
    if document.faults:
        raise _no_approvals(file, document.faults)
    secret_guard.refuse_secret_text(raw.decode("utf-8", "replace"), "the file of approvals")
    try:
        return _ApprovalDocument.model_validate(document.value).approvals
    except ValidationError as faults:
        raise _no_approvals(file, [_fault(error, document) for error in faults.errors()]) from faults


def _fault(error: Any, document: strict_yaml.YamlDocument) -> Fault:  # noqa: ANN401 - pydantic's own mapping
    place: strict_yaml.Path = error["loc"]
    unknown = error["type"] == "extra_forbidden"
    message = "is not a field" if unknown else wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    return Fault(dotted(place), document.line(place), message, InvalidInput.code)


def _no_approvals(file: Path, faults: Iterable[Fault]) -> InvalidInput:
    first, *others = sorted(faults, key=lambda fault: fault.line or 0)
    blank = first.path.rpartition(".")[2] in ("by", "reason")
    fill_in = f"write who approves, and why, in {file.name}; or remove what nobody approves"
    return InvalidInput(
        f"{file} is no file of approvals: {first}", next_step=fill_in if blank else _NEXT, faults=tuple(others)
    )
