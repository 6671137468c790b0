"""What a command wrote is opened by descriptor, through no link, and only where it is a file of bounded size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflectloop.system import beneath, tree_walk


@pytest.fixture(params=["openat2", "by component"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of opening: of a kernel that has openat2, and of one that has not."""
    if request.param == "by component":
        monkeypatch.setattr(beneath, "_has_openat2", lambda: False)
    elif not beneath._has_openat2():
        pytest.skip("this kernel has no openat2")


def outside(tmp_path: Path) -> Path:
    """A private folder that links lead to, beside the folder that is walked."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text("private\n")
    (tmp_path / "top").mkdir()
    return private


@pytest.mark.usefixtures("kernel")
def test_no_part_of_a_path_may_be_a_link(tmp_path: Path) -> None:
    private = outside(tmp_path)
    top = tmp_path / "top"
    (top / "a").mkdir()
    (top / "a" / "key").write_text("ours\n")
    (top / "linked").symlink_to(private)
    (top / "a" / "last").symlink_to(private / "key")
    (top / "inside").symlink_to("a")
    with tree_walk.open_folder(top) as fd:
        assert beneath.read(fd, "a/key", 100) == b"ours\n"
        for path in ("linked/key", "a/last", "inside/key"):
            with pytest.raises(beneath.NotPlain, match="link"):
                beneath.read(fd, path, 100)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("path", ["../private/key", "a/../../private/key", "/etc/hostname"])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    outside(tmp_path)
    (tmp_path / "top" / "a").mkdir()
    with tree_walk.open_folder(tmp_path / "top") as fd, pytest.raises(beneath.NotPlain, match="leads out"):
        beneath.read(fd, path, 100)


@pytest.mark.usefixtures("kernel")
def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "pipe")
    (tmp_path / "a" / "large").write_bytes(bytes(11))
    with tree_walk.open_folder(tmp_path) as fd:
        with pytest.raises(beneath.NotPlain, match="pipe"):
            beneath.read(fd, "a/pipe", 10)
        with pytest.raises(beneath.NotPlain, match="folder"):
            beneath.read(fd, "a", 10)
        with pytest.raises(beneath.NotPlain, match="more than"):
            beneath.read(fd, "a/large", 10)
        assert beneath.read(fd, "a/large", 11) == bytes(11)


def test_a_named_path_may_be_a_link_but_not_to_a_device(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert beneath.read_path(tmp_path / "link") == b"x"
    with pytest.raises(beneath.NotPlain, match="device"):
        beneath.read_path(tmp_path / "zero")


def test_a_link_in_a_repository_must_end_inside_it(tmp_path: Path) -> None:
    private = outside(tmp_path)
    top = tmp_path / "top"
    (top / "file").write_text("x")
    (top / "link").symlink_to("file")
    (top / "out").symlink_to(private / "key")
    (top / "circle").symlink_to("circle")
    assert beneath.read_path(top / "link", within=top) == b"x"
    for name, why in (("out", "leads out"), ("circle", "circle|link")):
        with pytest.raises(OSError, match=why):
            beneath.read_path(top / name, within=top)


def test_files_are_found_beneath_a_folder_and_not_through_links(tmp_path: Path) -> None:
    private = outside(tmp_path)
    top = tmp_path / "top"
    for name in ("target", "part/target", "part/deep/target"):
        (top / name).mkdir(parents=True)
        (top / name / "TEST-a.xml").touch()
    (top / "other").mkdir()
    (private / "TEST-b.xml").touch()
    (top / "other" / "target").symlink_to(private)
    (top / "target" / "TEST-c.xml").symlink_to(private / "TEST-b.xml")
    with tree_walk.open_folder(top) as fd:
        assert beneath.find_files(fd, "**/target/TEST-*.xml", 10) == [
            "part/deep/target/TEST-a.xml",
            "part/target/TEST-a.xml",
            "target/TEST-a.xml",
        ]
        assert beneath.find_files(fd, "target/*.xml", 10) == ["target/TEST-a.xml"]
        with pytest.raises(beneath.NotPlain, match="more than 2"):
            beneath.find_files(fd, "**/target/TEST-*.xml", 2)


def test_a_copy_follows_no_link_on_either_side(tmp_path: Path) -> None:
    private = outside(tmp_path)
    top, target = tmp_path / "top", tmp_path / "target"
    (top / "deps" / "bin").mkdir(parents=True)
    (top / "deps" / "bin" / "tool").write_text("#!/bin/sh\n")
    (top / "deps" / "bin" / "tool").chmod(0o755)
    (top / "deps" / "link").symlink_to(private)
    os.mkfifo(top / "deps" / "pipe")
    target.mkdir()
    with tree_walk.open_folder(top) as source, tree_walk.open_folder(target) as into:
        beneath.copy(source, "deps", into, "deps")
        assert (target / "deps" / "bin" / "tool").stat().st_mode & 0o777 == 0o755
        assert (target / "deps" / "link").readlink() == private
        assert not (target / "deps" / "pipe").exists()
        (target / "led").symlink_to(private)
        with pytest.raises(beneath.NotPlain, match="link"):
            beneath.copy(source, "deps", into, "led/deps")
    assert [path.name for path in private.iterdir()] == ["key"]


def test_holes_of_a_file_are_copied_as_holes(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    with (tmp_path / "from" / "sparse").open("wb") as file:
        file.write(b"head")
        file.seek(1 << 40)
        file.write(b"tail")
        file.truncate((1 << 40) + (1 << 30))
    with tree_walk.open_folder(tmp_path / "from") as source, tree_walk.open_folder(tmp_path / "to") as target:
        beneath.copy(source, "sparse", target, "sparse")
    made = (tmp_path / "to" / "sparse").stat()
    assert made.st_size == (1 << 40) + (1 << 30)
    assert made.st_blocks * 512 < 1 << 20
    with (tmp_path / "to" / "sparse").open("rb") as file:
        assert file.read(5) == b"head\0"
        file.seek(1 << 40)
        assert file.read(5) == b"tail\0"
