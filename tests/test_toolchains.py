"""Of a HOME commands see the programs of its toolchains, and nothing that lies beside them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from boxes import full, log, needs_landlock, without_bubblewrap
from reflectloop.sandbox import environment, mounts, toolchains
from support import Repo

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


def put(path: Path, text: str = "private\n", mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def is_shown(path: Path, caller: dict[str, str], home: Path, root: Path | None = None) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(shown.resolve()) for shown in toolchains.readable_tools(caller, home, (), root))


@pytest.mark.parametrize(
    ("private", "tools", "variables"),
    [
        (".local/share/keyrings/login.keyring", (".local/bin/x", ".local/lib/python3.11/x"), {"PATH": ".local/bin"}),
        (".local/lib/app/token", (".local/bin/x", ".local/lib/python3.11/x"), {"PATH": ".local/bin"}),
        (
            ".local/share/gem/credentials",
            (".local/bin/x", ".local/lib/python3.11/x", ".local/pyvenv.cfg"),
            {"PATH": ".local/bin"},
        ),
        (".luarocks/upload_config.lua", (".luarocks/bin/x", ".luarocks/lib/x"), {"PATH": ".luarocks/bin"}),
        (".cabal/config", (".cabal/bin/x", ".cabal/lib/x"), {"PATH": ".cabal/bin"}),
        (".wasmer/wasmer.toml", (".wasmer/bin/x", ".wasmer/lib/x"), {"PATH": ".wasmer/bin"}),
        (".gem/credentials", (".gem/gems/x", ".gem/specifications/x"), {"GEM_HOME": ".gem"}),
        (".pyenv/.netrc", (".pyenv/versions/3/bin/python", ".pyenv/shims/python"), {"PYENV_ROOT": ".pyenv"}),
        (".nvm/.npmrc", (".nvm/versions/node/v20/bin/node",), {"NVM_DIR": ".nvm"}),
        ("maven/conf/settings.xml", ("maven/bin/mvn", "maven/lib/x", "maven/boot/x"), {"MAVEN_HOME": "maven"}),
        ("jdk/keys/mine.jks", ("jdk/bin/java", "jdk/lib/modules", "jdk/conf/security"), {"JAVA_HOME": "jdk"}),
        ("app/config.ini", ("app/bin/x", "app/lib/x"), {"PATH": "app/bin"}),
        ("env/notes", ("env/bin/python", "env/lib/x", "env/pyvenv.cfg"), {"VIRTUAL_ENV": "env", "PATH": "env/bin"}),
        (".opam/plugins/opam-publish/me.token", (".opam/default/bin/ocaml", ".opam/default/lib/x"), {}),
        (".ssh/id_test", ("bin/x",), {"PATH": "bin", "JAVA_HOME": ".", "VIRTUAL_ENV": "."}),
        (".config/app/token", (".cargo/bin/cargo", ".rustup/toolchains/stable/bin/rustc"), {"RUSTUP_HOME": ".rustup"}),
        ("miniconda3/.condarc", ("miniconda3/bin/python", "miniconda3/envs/x/bin/python"), {"PATH": "miniconda3/bin"}),
    ],
)
def test_programs_are_readable_and_files_next_to_them_are_not(
    private: str, tools: tuple[str, ...], variables: dict[str, str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    put(home / private)
    for tool in tools:
        put(home / tool, "tool\n", 0o755)
    caller = {name: str(home / place) for name, place in variables.items()}
    assert not is_shown(home / private, caller, home)
    assert [tool for tool in tools if not is_shown(home / tool, caller, home) and tool != ".local/pyvenv.cfg"] == []


def test_a_linked_program_on_the_path_is_readable_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    program = put(home / "apps/thing/thing", "#!/bin/sh\n", 0o755)
    neighbour = put(home / "apps/thing/account.json")
    (home / "bin").mkdir()
    (home / "bin/thing").symlink_to(program)
    (home / "bin/notes").symlink_to(neighbour)
    caller = {"PATH": str(home / "bin")}
    assert is_shown(program, caller, home)
    assert not is_shown(neighbour, caller, home)


def test_a_linked_program_of_a_node_package_is_readable_with_its_package(tmp_path: Path) -> None:
    home = tmp_path / "home"
    modules = home / "apps/node_modules"
    program = put(modules / "yarn/bin/yarn.js", "#!/usr/bin/env node\n", 0o755)
    scoped = put(modules / "@x/tool/cli.js", "#!/usr/bin/env node\n", 0o755)
    parts = [put(modules / "yarn/lib/cli.js"), put(modules / "@x/tool/lib/a.js")]
    others = [put(modules / "other/key.js"), put(modules / "@x/other/key.js"), put(home / "apps/account.json")]
    (home / "bin").mkdir()
    (home / "bin/yarn").symlink_to(program)
    (home / "bin/tool").symlink_to(scoped)
    caller = {"PATH": str(home / "bin")}
    assert [path for path in (program, scoped, *parts) if not is_shown(path, caller, home)] == []
    assert [path for path in others if is_shown(path, caller, home)] == []


def test_a_link_inside_the_project_makes_nothing_readable(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    program = put(home / "private/run", "#!/bin/sh\n", 0o755)
    put(project / ".venv/pyvenv.cfg")
    (project / ".venv/bin").mkdir()
    for name in ("python", "tool"):
        (project / ".venv/bin" / name).symlink_to(program)
    caller = {"PATH": str(project / ".venv/bin"), "VIRTUAL_ENV": str(project / ".venv")}
    assert not is_shown(program, caller, home, project)
    assert not is_shown(home / "private", caller, home, project)


def _install(home: Path) -> dict[str, str]:
    """Lay out what pip --user, a tool installer and a folder of environments leave, and return what finds it."""
    mine = put(home / f".local/lib/{VERSION}/site-packages/mine.py", "print('by the user site')\n", 0o644)
    start = f"import site\nsite.addsitedir({str(mine.parent)!r})\nimport mine\n"
    put(home / ".local/bin/said", f"#!{sys.base_prefix}/bin/python3\n{start}", 0o755)
    put(home / ".local/share/app/token")
    for place in (".local/share/uv/tools/demo", ".virtualenvs/mine"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / place)], check=True)
        (site,) = (home / place).glob("lib/python3*/site-packages")
        put(site / "demo.py", f"print('by {place}')\n", 0o644)
    script = put(home / ".local/share/uv/tools/demo/bin/demo", "", 0o755)
    script.write_text(f"#!{home}/.local/share/uv/tools/demo/bin/python\nimport demo\n")
    (home / ".local/bin/demo").symlink_to(script)
    return {"VIRTUAL_ENV": str(home / ".virtualenvs/mine")}


@pytest.mark.parametrize("by", [pytest.param("bubblewrap", marks=full), pytest.param("landlock", marks=needs_landlock)])
def test_real_toolchains_under_home_work_in_the_sandbox(by: str, repo: Repo, tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    env = _install(home)
    base = without_bubblewrap(tmp_path)["PATH"] if by == "landlock" else os.environ["PATH"]
    env["PATH"] = f"{home}/.virtualenvs/mine/bin:{home}/.local/bin:{base}"
    command = f"said; demo; python -c 'import demo'; cat {home}/.local/share/app/token || echo refused"
    answer = repo.run("run", "--json", repo.steps(command), env=env)
    assert answer.code == 0, answer.stdout
    assert answer.envelope["isolation_by"] == by
    said = [line for line in log(repo).splitlines() if not line.startswith("cat:")]
    assert said == ["by the user site", "by .local/share/uv/tools/demo", "by .virtualenvs/mine", "refused"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read them")
def test_files_that_others_may_not_read_are_hidden_from_roots_commands(tmp_path: Path) -> None:
    kept = [
        put(tmp_path / "open", mode=0o644),
        put(tmp_path / "bin/only-run", mode=0o711),
        put(tmp_path / "somebody-elses", mode=0o600),
    ]
    os.chown(kept[2], 65534, 65534)  # without its powers root cannot read it either
    secret = [put(tmp_path / "mine"), put(tmp_path / "passed/deep/mine"), put(tmp_path / "group", mode=0o640)]
    put(tmp_path / "shut/open", mode=0o644)
    (tmp_path / "shut").chmod(0o700)
    (tmp_path / "passed").chmod(0o711)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fspath(tmp_path / "sock"))
    listener.close()
    paths = toolchains.from_others((toolchains._SearchDepth(os.fspath(tmp_path), 40),))
    assert sorted(paths) == sorted([*secret, tmp_path / "shut", tmp_path / "sock"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read them")
def test_a_folder_with_many_hidden_files_is_hidden_completely(tmp_path: Path) -> None:
    for number in range(60):
        put(tmp_path / "keys" / str(number), mode=0o600)
    assert list(toolchains._search(toolchains._SearchDepth(os.fspath(tmp_path), 40))) == [tmp_path / "keys"]


def test_a_socket_in_a_readable_folder_is_hidden(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    place = tmp_path / "s"
    listener.bind(os.fspath(place))
    shown = [mounts.Mount("read", Path("/inside"), tmp_path)]
    masks = mounts._sockets(shown)
    assert masks == [mounts.Mount("mask", Path("/inside/s"), place)]
    assert mounts._sockets([*shown, mounts.Mount("mask", tmp_path, tmp_path)]) == []  # hidden with its folder
    whole = mounts.MountTable((*shown, *masks), tmp_path, tmp_path)
    assert whole.there() == whole
    listener.close()
    place.unlink()
    assert whole.there().mounts == tuple(shown)


@pytest.mark.parametrize(
    ("versions", "variable", "own_file", "expected"),
    [
        ("3.12.1\n", "", False, "{root}/versions/3.12.1/bin:{root}/shims:/usr/bin"),
        ("3.12.1\n", "3.13", False, "{root}/shims:/usr/bin"),
        ("3.12.1\n", "", True, "{root}/shims:/usr/bin"),
        ("3.12.1\n3.13.0\n", "", False, "{root}/shims:/usr/bin"),
        ("system\n", "", False, "{root}/shims:/usr/bin"),
        ("../..\n", "", False, "{root}/shims:/usr/bin"),
        ("", "", False, "{root}/shims:/usr/bin"),
    ],
)
def test_the_version_that_pyenv_would_choose_comes_before_its_shims(
    tmp_path: Path, versions: str, variable: str, own_file: bool, expected: str
) -> None:
    root, repo = tmp_path / ".pyenv", tmp_path / "repo"
    for folder in (root / "shims", root / "versions" / "3.12.1" / "bin", tmp_path / "bin", repo / "src"):
        folder.mkdir(parents=True)
    (root / "version").write_text(versions)
    if own_file:
        (repo / ".python-version").write_text("3.12.1\n")
    env = {"PATH": f"{root}/shims:/usr/bin", "PYENV_VERSION": variable}
    assert environment.past_pyenv(env, repo / "src", repo) == expected.format(root=root)
