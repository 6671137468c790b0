"""Classify paths without looking at the disk: the machine, a home, a temp folder, build output and so on."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import re2

from reflectloop.policy.rule import compiled
from reflectloop.policy.simple_command import UNKNOWN, ShellWord
from reflectloop.system import patterns

Place = Literal[
    "machine",  # the root, a system folder, or a whole folder directly below the root
    "device",  # a disk
    "network",  # another machine, by /dev/tcp or /dev/udp
    "home",  # a whole home folder
    "private",  # keys and credentials in a home
    "profile",  # files that a shell or a login runs when it starts
    "in-home",
    "temp",
    "built",  # a relative path to files that tools can make again
    "here",  # the whole current folder, or its .git
    "above",  # outside the current folder, by `..`
    "relative",
    "absolute",
    "unknown",
]


def _lazily(pattern: str) -> Callable[[], re2._Regexp]:
    """Return a function that compiles the pattern on first use."""
    return lambda: compiled(pattern)


_SYSTEM = _lazily(
    r"/(bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|sbin|sys|usr|System|Library|Windows)(/.*)?$"
    r"|/(var|opt|home|root|srv|mnt|media|run|data|Users|Applications|Volumes|private|snap|nix|workspace|app)$"
    r"|/var/(lib|log|www|spool|mail|backups|db|run)$|/private/(etc|var)$|/nix/store$|/snap/\w+$"
)
_OURS = _lazily(
    r"/usr/(local|src|share/doc)/.|/etc/(apt|ssl|nginx|supervisor)/.+/.|/dev/(null|std\w+|tty|fd|shm/.)|/proc/self/"
)
_HOME = _lazily(r"(~[\w.-]*|\$HOME|/home/[^/]+|/root|/Users/[^/]+|\$USERPROFILE)(/.*)?$")
_WHOLE_HOME = _lazily(r"[^/]*/*$|/(home|Users)/[^/]+/*$|/root/*$")
_TEMP = _lazily(
    r"(/tmp|/var/tmp|/private/tmp|/private/var/folders|/dev/shm|/var/folders|\$(\w*_)?(TMP|TEMP|tmp|temp)(_?(DIR|dir|PATH|path|ROOT|FOLDER|folder|FILE|file))?)(/.*)?$"
)
_CACHES = _lazily(
    r"/var/lib/apt/lists(/.*)?$|/var/cache(/.*)?$|/(root|home/[^/]+)/\.cache(/.+)?$|(~|\$HOME)/\.cache/.+$"
    r"|(~|\$HOME)/(\.npm|\.gradle/caches|\.m2/repository|\.cargo/registry|\.nuget/packages|\.yarn|\.pnpm-store|\.node-gyp)(/.*)?$"
)
_DEVICE = _lazily(r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|md|dm-|loop|mem|kmem|port)|\\\\\.\\PhysicalDrive")
_PRIVATE = _lazily(
    r"(^|/)(\.ssh(/(id_\w+|identity|authorized_keys\d?|config|.*_key))?|\.gnupg(/.*)?|\.aws(/credentials)?|\.kube(/config)?"
    r"|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.pypirc|\.docker/config\.json|\.config/(gh/hosts\.yml|gcloud(/.*)?|op(/.*)?)|\.azure(/.*)?"
    r"|\.git-credentials|\.vault-token|\.password-store(/.*)?|\.mozilla(/.*)?|Keychains(/.*)?|id_(rsa|dsa|ecdsa|ed25519))$"
    r"|^/etc/(shadow|gshadow|sudoers|ssh/ssh_host_\w+_key)(-|\.d(/.*)?)?$|^/proc/[^/]+/(environ|mem)$"
    r"|(^|/)\.config/(rclone/rclone\.conf|hub)$|/var/run/secrets/.*$"
)
_PROFILE = _lazily(
    r"(^|/)\.(bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc|tcshrc|inputrc|xinitrc|xsession"
    r"|bash_aliases|bash_history|zsh_history|vimrc|exrc|emacs|tmux\.conf|pdbrc|gdbinit|lldbinit|irbrc|Rprofile|psqlrc|sqliterc"
    r"|gitconfig|npmrc|ssh/rc|config/(fish/config\.fish|fish/conf\.d/.+|systemd/user(/.+)?|autostart(/.+)?|git/config|environment\.d/.+)"
    r"|local/share/systemd/user/.+|cargo/config(\.toml)?|config/pip/pip\.conf)$|(^|/)Launch(Agents|Daemons)(/.+)?$"
    r"|(^|/)\.git/(hooks(/.+)?|config)$|(^|/)(site|dist)-packages/([^/]+\.pth|(site|user)customize\.py)$"
    r"|^/etc/(systemd/(system|user)|init\.d|profile\.d|pam\.d|udev/rules\.d|xdg/autostart|update-motd\.d|modprobe\.d|modules-load\.d)(/.+)?$"
    r"|^/var/spool/(cron|at)(/.*)?$|^/etc/(anacrontab|inittab|at\.allow|ld\.so\.conf(\.d/.+)?|security/.+|ssh/sshd?_config(\.d/.+)?)$"
    r"|^/etc/(profile|bash\.bashrc|environment|crontab|cron\..+|ld\.so\.preload|rc\.local|hosts|passwd|group|fstab|resolv\.conf|sudoers(\.d/.*)?)$"
)
_BUILT_NAMES = frozenset(
    """
    .angular .aws-sam .bundle .cache .coverage .cxx .dart_tool .docusaurus .eggs .eslintcache .expo .gradle
    .hypothesis .ipynb_checkpoints .jest .mypy_cache .next .nox .nuxt .nyc_output .output .parcel-cache
    .pytest_cache .rpt2_cache .ruff_cache .sass-cache .serverless .stack-work .svelte-kit .terraform .tox .turbo
    .venv .vite .webpack .yarn-cache DerivedData Pods __pycache__ _build _site artifact artifacts bazel-bin
    bazel-out bazel-testlogs bin bower_components build builds cache cjs cmake-build-debug cmake-build-release cov
    cover coverage coverage.xml cypress/videos deps_build dist dist-newstyle doc/build docs/_build docs/build elm-stuff
    env es esm gen generated htmlcov install jars jspm_packages junit lcov-report lib lib-cov log logs node_modules
    nosetests.xml obj out output outputs package-lock.json pkg public/build release report reports result results
    sdist site site-packages stage staging storybook-static target temp test-output test-reports test-results tmp
    types typings umd vendor venv wheelhouse wheels work xunit zig-cache zig-out
    """.split()
)
_BUILT = _lazily(
    r".*(\.egg-info|\.dist-info|\.pyc|\.pyo|\.o|\.so|\.a|\.class|\.log|\.tmp|\.bak|\.whl|\.tsbuildinfo|~|\.gcda|\.gcno|\.profraw|\.orig|\.rej|\.swp"
    r"|[-_.](build|dist|cache|tmp|temp|out|output|venv|artifacts|coverage|report|reports|results))$|(build|dist|cmake-build|tmp|temp|cov|coverage|venv|\.coverage)[-_.*].*"
)
_BUILT_VARIABLE = _lazily(
    r"\$\{?\w*(BUILD|DIST|CACHE|COVERAGE|VENV|ARTIFACT|OUTPUT|OUT_?DIR|TARGET_?DIR|build|dist|cache|venv|out_?dir)\w*\}?(/.*)?$"
)
_VARIABLE = patterns.lazy(r"\$\{?(\w+)\}?")
_LONGEST = 4096  # the kernel's limit for a path
_HERE = frozenset(
    (
        ".",
        "./",
        "*",
        "./*",
        ".*",
        "./.*",
        "..?*",
        ".[!.]*",
        ".[^.]*",
        "$PWD",
        "$PWD/*",
        ".git",
        "./.git",
        "**",
        "$(pwd)",
        ":/",
    )
)


def path_class(word: ShellWord, folder: str = "") -> Place:
    """Return the class of the path that a word names, relative to a folder."""
    return "unknown" if len(word.text) + len(folder) > _LONGEST else _path_class(word, folder)


@lru_cache(maxsize=1024)  # several rules need the class of the same word
def _path_class(word: ShellWord, folder: str) -> Place:  # noqa: C901, PLR0911 - a list of cases in order
    path = _tidy(word.text, folder)
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        return "temp" if path.split("/")[3].startswith(("localhost", "127.", "[::1]")) else "network"
    if _DEVICE().match(path):
        return "device"
    if _PRIVATE().search(path):
        return "private"
    if _PROFILE().search(path) and not path.startswith(("/tmp/", "/workspace/")):  # noqa: S108
        return "profile"
    if _TEMP().match(path) or _CACHES().match(path):
        return "temp"
    if path == "/" or (_SYSTEM().match(path) and not _OURS().match(path)) or re.match(r"[A-Za-z]:[\\/]?\*?$", path):
        return "machine"
    if _HOME().match(path):
        return "home" if _WHOLE_HOME().match(path) else "in-home"
    if path in _HERE:
        return "here"
    if path.startswith("/"):
        return "absolute"
    if path == ".." or path.startswith("../"):
        return "above"
    return _relative(path)


def _relative(path: str) -> Place:
    path = path.removeprefix("$PWD/")
    if _BUILT_VARIABLE().match(path):
        return "built"
    if UNKNOWN in path.split("/")[0] or path.startswith("$"):
        return "unknown"
    names = path.rstrip("/").split("/")
    if any(_is_built(name) for name in names) or "/".join(names[-2:]) in _BUILT_NAMES:
        return "built"
    return "relative"


def _is_built(name: str) -> bool:
    return name.rstrip("*") in _BUILT_NAMES or _BUILT().fullmatch(name) is not None


def _tidy(text: str, folder: str) -> str:
    """Return the normalized path; `/*` after a folder means the folder."""
    path = _VARIABLE.sub(r"$\1", text.removeprefix("file://"))
    if folder and not path.startswith(("/", "~", "$")):
        path = posixpath.join(_VARIABLE.sub(r"$\1", folder), path)
    if path in _HERE:
        return path
    if path.startswith("//"):
        path = "/" + path.lstrip("/")
    rooted = path.startswith(("/", "~", "$"))
    bare = re.sub(r"(?<=/)(\*+|\.\*|\{.*\})?$", "", path) if rooted else path
    # `..` from a folder that only the shell knows may lead anywhere.
    tidy = posixpath.normpath(bare) if bare else path
    if rooted and path[0] in "~$" and (tidy in (".", "/") or not tidy.startswith(path[0])):
        return UNKNOWN
    if re.match(r"[~$][^/]*/\.\.(/|$)", bare):
        return UNKNOWN
    return tidy
