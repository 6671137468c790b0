"""Files that a repository brings are read as regular files of bounded size, or refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflectloop import config
from reflectloop.errors import InvalidInput
from reflectloop.policy import active_rules
from reflectloop.secrets import baseline, rulefile
from support import Repo

LARGE = (16 << 20) + 1


@pytest.mark.parametrize("kind", ["device", "pipe", "huge", "outside"])
def test_settings_that_are_no_file_of_the_project_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    settings = project / "reflectloop.toml"
    (tmp_path / "elsewhere.toml").write_text("")
    match kind:
        case "device":
            settings.symlink_to("/dev/null")
        case "pipe":
            os.mkfifo(settings)
        case "huge":
            settings.touch()
            os.truncate(settings, LARGE)
        case _:
            settings.symlink_to("../elsewhere.toml")
    with pytest.raises(InvalidInput) as refused:
        config.load(project)
    assert os.fspath(settings) in refused.value.message
    assert any(word in refused.value.message for word in ("device", "pipe", "more than 17 MB", "leads out"))


def test_settings_may_be_a_link_that_ends_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "own.toml").write_text("[run]\nidle_s = 7\n")
    (tmp_path / "reflectloop.toml").symlink_to("settings/own.toml")
    assert config.load(tmp_path).run.idle_s == 7


def test_rules_that_are_a_device_are_refused_by_name(tmp_path: Path) -> None:
    rules = tmp_path / ".reflectloop" / "rules"
    rules.mkdir(parents=True)
    (rules / "L-0123456789ab.yaml").symlink_to("/dev/null")
    with pytest.raises(InvalidInput, match=r"L-0123456789ab\.yaml: is a device"):
        active_rules.of(config.Config().policy, tmp_path)


@pytest.mark.parametrize("read", [baseline.read_baseline, rulefile.read_rule_file])
def test_rules_and_baselines_beyond_their_size_are_refused(tmp_path: Path, read: object) -> None:
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, LARGE)
    with pytest.raises(InvalidInput, match="more than 17 MB"):
        read(large)  # type: ignore[operator]


def test_no_ignore_rules_can_be_said_by_the_empty_device(repo: Repo) -> None:
    repo.git("config", "core.excludesFile", "/dev/null")
    assert repo.run("run", repo.steps("echo x > y")).code == 0


def test_a_lesson_that_is_a_link_to_a_device_is_passed_over(repo: Repo) -> None:
    folder = repo.path / ".reflectloop" / "knowledge" / "problem"
    folder.mkdir(parents=True)
    (folder / "L-0123456789ab.md").symlink_to("/dev/zero")
    assert repo.run("lessons", "list").code == 0
