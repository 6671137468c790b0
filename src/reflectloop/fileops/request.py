"""The models of a request. `validate` checks rules that span several fields."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, StrictBool, StrictInt

from reflectloop.fileops.plan_ops import (
    AppendSteps,
    ApplySplit,
    FilePath,
    Finalize,
    FolderPath,
    MarkBlocked,
    PlanInit,
    PlanOpModel,
    Preflight,
    Title,
    Words,
)
from reflectloop.plan.model import Command

Proto = Literal["triflow.fileops.v1", "autoflow.fileops.v1"]
Purpose = Literal["execute_step", "write_plan_files", "finalize_step", "read_state", "split_step"]
MOST_OPS = 200
LARGEST_CONTENT = 8 << 20  # bytes of one write, or of one patch
_LONGEST_WORD = 100_000  # characters of one argument; the kernel allows slightly more
_A_DAY_MS = 24 * 3600 * 1000


def _fits(text: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_CONTENT:
        raise ValueError(f"has more than {LARGEST_CONTENT >> 20} MB")
    return text


def as_text(value: JsonValue) -> str:
    """Return a value in the form that `write_json` writes."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _value_fits(value: JsonValue) -> JsonValue:
    _fits(as_text(value))
    return value


def _runnable(command: str | tuple[str, ...]) -> str | tuple[str, ...]:
    argv = [command] if isinstance(command, str) else command
    if any("\0" in argument for argument in argv):
        raise ValueError("contains a NUL character")
    if any(len(argument) > _LONGEST_WORD for argument in argv):
        raise ValueError(f"contains an argument of more than {_LONGEST_WORD} characters")
    return command


class ReadFile(PlanOpModel):
    op: Literal["read_file"]
    path: FilePath
    startLine: Annotated[StrictInt, Field(ge=1)] = 1  # noqa: N815 - the protocol's own names
    endLine: Annotated[StrictInt, Field(ge=1)] | None = None  # noqa: N815


class WriteFile(PlanOpModel):
    op: Literal["write_file"]
    path: FilePath
    content: Annotated[str, AfterValidator(_fits)]


class WriteJson(PlanOpModel):
    op: Literal["write_json"]
    path: FilePath
    value: Annotated[JsonValue, AfterValidator(_value_fits)]


class ApplyPatch(PlanOpModel):
    """A `*** Begin Patch` text, or a unified diff."""

    op: Literal["apply_patch"]
    patch: Annotated[str, Field(min_length=1), AfterValidator(_fits)]


class RunOp(PlanOpModel):
    op: Literal["run"]
    cmd: Annotated[Command, AfterValidator(_runnable)]
    cwd: FolderPath = "."
    timeoutMs: Annotated[StrictInt, Field(ge=1, le=_A_DAY_MS)] = 600_000  # noqa: N815


class ListDir(PlanOpModel):
    op: Literal["list_dir"]
    path: FolderPath = "."
    depth: Annotated[StrictInt, Field(ge=1, le=32)] = 1
    maxEntries: Annotated[StrictInt, Field(ge=1, le=10_000)] = 1000  # noqa: N815


class Search(PlanOpModel):
    """Finds lines that contain a text, or match a regular expression (RE2)."""

    op: Literal["search"]
    pattern: Annotated[str, Field(min_length=1, max_length=1000)]
    regex: StrictBool = False
    ignoreCase: StrictBool = False  # noqa: N815
    path: FolderPath = "."
    glob: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    maxResults: Annotated[StrictInt, Field(ge=1, le=5000)] = 200  # noqa: N815


class DeleteFile(PlanOpModel):
    op: Literal["delete_file"]
    path: FilePath


class MoveFile(PlanOpModel):
    op: Literal["move_file"]
    source: FilePath = Field(alias="from")
    target: FilePath = Field(alias="to")


READING = (ReadFile, ListDir, Search)
WRITING = (WriteFile, WriteJson, ApplyPatch, DeleteFile, MoveFile)
Op = Annotated[
    ReadFile
    | WriteFile
    | WriteJson
    | ApplyPatch
    | RunOp
    | ListDir
    | Search
    | DeleteFile
    | MoveFile
    | PlanInit
    | Preflight
    | Finalize
    | MarkBlocked
    | ApplySplit
    | AppendSteps,
    Field(discriminator="op"),
]


class Constraints(PlanOpModel):
    no_network: StrictBool = False
    writable_roots: tuple[FolderPath, ...] = ()  # empty: every path that the caller may write
    max_attempts: Annotated[StrictInt, Field(ge=1, le=100)] | None = None


class RequestReport(PlanOpModel):
    changedFiles: StrictBool = True  # noqa: N815
    diffSummary: StrictBool = False  # noqa: N815
    commandOutputs: Literal["on_failure", "always", "never"] = "on_failure"  # noqa: N815


class FileopsRequest(PlanOpModel):
    proto: Proto
    id: Title
    purpose: Purpose
    summary: Annotated[str, Field(max_length=20_000)] = ""
    done: tuple[Words, ...] = ()
    ops: Annotated[tuple[Op, ...], Field(min_length=1, max_length=MOST_OPS)]
    constraints: Constraints = Constraints()
    report: RequestReport = RequestReport()

    @property
    def hash(self) -> str:
        """Return a hash that is equal for two requests with the same content, however they are formatted."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)
