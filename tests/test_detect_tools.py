"""Tools are resolved to those that a check will see: the project's environment, then the caller's path."""

from __future__ import annotations

from pathlib import Path

from reflectloop.verification import detect
from reflectloop.verification.result import DetectedCheck


def executable(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_a_carried_environment_comes_before_the_callers(tmp_path: Path) -> None:
    check = DetectedCheck("pytest", "test", "pytest", ("pytest", "-q"))
    executable(tmp_path / "elsewhere" / "bin" / "pytest")
    caller = {"VIRTUAL_ENV": str(tmp_path / "elsewhere"), "PATH": ""}
    root = tmp_path / "project"
    root.mkdir()
    assert detect.resolve(check, root, caller).command == (str(tmp_path / "elsewhere/bin/pytest"), "-q")
    executable(root / ".venv" / "bin" / "pytest")
    (root / ".venv" / "pyvenv.cfg").write_text("")
    assert detect.resolve(check, root, caller).command == (".venv/bin/pytest", "-q")
    (root / "below").mkdir()
    assert detect.resolve(check._replace(cwd="below"), root, caller).command == ("../.venv/bin/pytest", "-q")
    assert detect.resolve(check, root, caller, carried=()).command[0] == str(tmp_path / "elsewhere/bin/pytest")


def test_an_environment_with_the_module_alone_is_asked_for_the_module(tmp_path: Path) -> None:
    module = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "pytest" / "__main__.py"
    executable(module)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("")
    check = DetectedCheck("pytest", "test", "pytest", ("pytest",))
    assert detect.resolve(check, tmp_path, {}).command == (".venv/bin/python", "-m", "pytest")


def test_a_script_of_a_copied_environment_is_not_run_by_the_python_of_the_original(tmp_path: Path) -> None:
    check = DetectedCheck("pytest", "test", "pytest", ("pytest",))
    script = tmp_path / "copy" / ".venv" / "bin" / "pytest"
    executable(script)
    (tmp_path / "copy" / ".venv" / "pyvenv.cfg").write_text("")
    for place, command in (("copy", (".venv/bin/pytest",)), ("original", (".venv/bin/python", "-m", "pytest"))):
        script.write_text(f"#!{tmp_path / place}/.venv/bin/python3.11\nimport pytest\n")
        assert detect.resolve(check, tmp_path / "copy", {}).command == command


def test_tools_of_node_are_found_beside_the_project_up_to_its_top(tmp_path: Path) -> None:
    executable(tmp_path / "node_modules" / ".bin" / "mocha")
    (tmp_path / "web").mkdir()
    check = DetectedCheck("mocha", "test", "mocha", ("env", "A=b", "mocha"), "web")
    assert detect.resolve(check, tmp_path, {}).command == ("env", "A=b", "../node_modules/.bin/mocha")


def test_only_what_a_command_will_see_is_resolved_to(tmp_path: Path) -> None:
    executable(tmp_path / "web" / "node_modules" / ".bin" / "jest")
    (tmp_path / ".venv").mkdir()
    check = DetectedCheck("web:jest", "test", "jest", ("jest",), "web")
    assert detect.beside([check], tmp_path) == ("web/node_modules", ".venv")
    assert detect.resolve(check, tmp_path, {}).command == ("node_modules/.bin/jest",)
    assert detect.resolve(check, tmp_path, {}, carried=["node_modules"]).command == ("jest",)
    assert detect.resolve(check, tmp_path, {}, carried=[Path("web/node_modules")]).command == (
        "node_modules/.bin/jest",
    )


def test_python_means_the_one_on_the_path_where_no_environment_is(tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "python3")
    check = DetectedCheck("unittest", "test", "unittest", ("python", "-m", "unittest"))
    assert detect.resolve(check, tmp_path, {"PATH": str(tmp_path / "bin")}).command[0] == "python3"
