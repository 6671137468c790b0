"""Describe the environment of sealed runs, and hash all that their outcomes depend on besides the judged trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reflectloop import config
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.verification import detect, environment_key
from reflectloop.verification.progress import CheckObserver
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import carry
from reflectloop.workspace.project import Project


@dataclass(frozen=True)
class SealedEnvironment:
    """All that sealed runs need besides what is judged; `verify` and `run` each set one up."""

    name: str
    project: Project
    trees: TreeBuilder
    settings: config.Config
    wall: IsolationLevel
    caller: Mapping[str, str]
    root: Path
    cache: Path
    logs: Path
    observer: CheckObserver


def beside(stage: SealedEnvironment, checks: Sequence[DetectedCheck], notes: set[str]) -> dict[Path, Path]:
    """Return the environments that the checks use, also those deeper in the project, such as a part's node_modules."""
    root = stage.project.root
    places = {Path(name): carry.find_source(root, Path(name)) for name in detect.beside(checks, root)}
    notes |= {carry.NOT_CARRIED.format(name=name) for name, source in places.items() if source is None}
    return {name: source for name, source in places.items() if source is not None}


def surroundings(
    stage: SealedEnvironment, base: str, beside: Mapping[Path, Path], installed: Mapping[Path, Path]
) -> str:
    """Return the hash of all that outcomes depend on, besides tree and command; `installed` is what a set-up made."""
    settings, wall = stage.settings, stage.wall
    words = [str(wall.level), wall.by, str(wall.network(None)), repr(settings.verify.setup), *settings.run.env_allow]
    words += [f"{name}={stage.caller.get(name)}" for name in settings.run.env_allow]
    plan = carry.plan_carry(
        stage.project,
        settings.workspace,
        stage.trees.git,
        base,
        base=base,
        bound=True,
        beside=beside,
        installed=installed,
    )
    return environment_key.hashed(words, stage.caller, plan.sources, installed)
