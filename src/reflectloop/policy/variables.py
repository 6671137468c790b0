"""Variables of the environment that make other programs run something: which values are ordinary, which are not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from reflectloop.policy import places, started
from reflectloop.policy.simple import SHELLS, Inner, Opaque, Script, Simple, Word

_RULE = "shell.variable-runs"
_LIBRARIES = re.compile(r"(?:/usr|/opt|/lib|/nix/store|/snap)[/\w]")
_ALLOCATORS = re.compile(
    r"(?:^|/)lib(?:jemalloc|tcmalloc|mimalloc|asan|ubsan|tsan|faketime|eatmydata|nss_wrapper|gcc_s)[^/]*$"
)
_MODULE = re.compile(r"(?:--require|-r|--import|--loader|--experimental-loader)[= ]?\s*(\S+)")
_PERL = re.compile(r"(?:-[wWtT]+|-M[\w:]+(?:=[\w,/:.-]+)?|-I?(?:lib|blib/\w+)|\s)+")
_RUBY = re.compile(
    r"(?:-W\S*|--?(?:yjit|jit|enable\S*|disable\S*|encoding\S*)|-w|-r(?:bundler/setup|[a-z_]+)|-I\s?\w+|\s)+"
)
_JAVA = re.compile(r"-javaagent:|-agentpath:|-agentlib:(?!jdwp)|-XX:On\w+=|-Xbootclasspath")
_PASSIVE = re.compile(r"history\s+-[an](?:;\s*history\s+-\w)*;?|:|true|")


def _commands(allowed: frozenset[str]) -> Callable[[Simple, str], bool]:
    return lambda _, value: started.ordinary(value, allowed)


def _outside(value: str) -> bool:
    """Say whether a path lies where anybody may have put something."""
    return places.of(Word(value)) in ("temp", "network") or value.startswith(("http:", "https:", "data:"))


def _preload(_: Simple, value: str) -> bool:
    parts = re.split(r"[:\s]+", value.strip())
    return all(not part or _LIBRARIES.match(part) or _ALLOCATORS.search(part) or part[0] == "$" for part in parts)


def _paths(_: Simple, value: str) -> bool:
    """Whether every folder that is searched first is the user's own."""
    folders = value.split(":")
    ahead = folders[: next((at for at, folder in enumerate(folders) if "PATH" in folder), len(folders))]
    return not any(
        (_outside(folder) and not folder.startswith("$")) or folder in (".", "") for folder in ahead if folders != [""]
    )


def _inside(_: Simple, value: str) -> bool:
    return not any(_outside(part) and not part.startswith("$") for part in value.split(":"))


def _node(_: Simple, value: str) -> bool:
    names = [found[1].strip("\"'") for found in _MODULE.finditer(value)]
    return not any(name.startswith(("/", "~", "data:", "http", "file:")) for name in names)


def _startup(one: Simple, value: str) -> bool:
    """`ENV` names a file where a shell starts, and a stage of deployment anywhere else."""
    return one.program not in SHELLS or "/" not in value


def _nothing(_: Simple, value: str) -> bool:
    return value in ("", "/dev/null", "0", "1") or re.fullmatch(r"(?:~|\$\{?HOME\}?)/\.[\w./-]+", value) is not None


def _unless(pattern: re.Pattern[str]) -> Callable[[Simple, str], bool]:
    return lambda _, value: pattern.search(value) is None


def _only(pattern: re.Pattern[str]) -> Callable[[Simple, str], bool]:
    return lambda _, value: not value or pattern.fullmatch(value) is not None


# A variable's name, and whether a value of it is ordinary.
_ORDINARY: dict[str, Callable[[Simple, str], bool]] = {
    **dict.fromkeys(
        ("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER", "AWS_PAGER", "GH_PAGER"), _commands(started.PAGERS)
    ),
    **dict.fromkeys(
        ("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "SUDO_EDITOR", "KUBE_EDITOR", "FCEDIT", "HGEDITOR"),
        _commands(started.EDITORS),
    ),
    **dict.fromkeys(("GIT_SSH_COMMAND", "GIT_SSH", "RSYNC_RSH", "CVS_RSH", "SVN_SSH"), _commands(started.REMOTES)),
    **dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS"), _commands(started.ASKERS)),
    "GIT_EXTERNAL_DIFF": _commands(started.DIFFERS),
    "GIT_PROXY_COMMAND": _commands(started.PROXIES),
    "BROWSER": _commands(started.BROWSERS),
    "SHELL": _commands(started.SHELL_NAMES),
    **dict.fromkeys(("LESSOPEN", "LESSCLOSE"), _unless(re.compile(r"^(?!.*lesspipe).*[|/$;]", re.DOTALL))),
    **dict.fromkeys(("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"), _preload),
    **dict.fromkeys(
        ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PERL5LIB", "RUBYLIB"), _inside
    ),
    **dict.fromkeys(("NODE_PATH", "CLASSPATH", "GCONV_PATH", "OPENSSL_CONF", "PYTHONUSERBASE", "GEM_PATH"), _inside),
    **dict.fromkeys(("RUSTC", "RUSTC_WRAPPER", "CARGO", "CC", "CXX", "LD", "GOFLAGS", "ANT_HOME", "M2_HOME"), _inside),
    **dict.fromkeys(
        ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_TEMPLATE_DIR", "GIT_EXEC_PATH", "ZDOTDIR"), _inside
    ),
    **dict.fromkeys(("MAKEFILES", "npm_config_userconfig", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE"), _inside),
    "PATH": _paths,
    "NODE_OPTIONS": _node,
    "PERL5OPT": _only(_PERL),
    "PERL5DB": _nothing,
    "RUBYOPT": _only(_RUBY),
    **dict.fromkeys(
        ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS"), _unless(_JAVA)
    ),
    **dict.fromkeys(("BASH_ENV", "PYTHONSTARTUP", "LUA_INIT", "VIMINIT", "EXINIT", "GIT_CONFIG_PARAMETERS"), _nothing),
    "ENV": _startup,
    "PROMPT_COMMAND": _only(_PASSIVE),
    "PS4": _unless(re.compile(r"\$\(|`")),
    "PS1": _unless(re.compile(r"\$\((?!__|git|parse_|date|hostname|whoami|basename|pwd)|`")),
    "MAKEFLAGS": _unless(re.compile(r"--eval|SHELL=|-f\s*\S*/")),
    "TAR_OPTIONS": _unless(re.compile(r"exec=|--to-command|-I|--use-compress")),
    "GIT_ALLOW_PROTOCOL": _unless(re.compile(r"ext")),
    "PYTHONWARNINGS": _unless(re.compile(r"antigravity|/")),
    "PYTHONBREAKPOINT": _only(re.compile(r"0|(?:i?pdb|pudb|web_pdb)\.set_trace")),
    **dict.fromkeys(("npm_config_script_shell", "NPM_CONFIG_SCRIPT_SHELL"), _commands(started.SHELL_NAMES)),
    **dict.fromkeys(("HISTFILE",), _unless(re.compile(r"^(?:/dev/null|)$"))),
}
_COMMANDS = frozenset(
    """
    PAGER GIT_PAGER MANPAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_SSH_COMMAND GIT_SSH RSYNC_RSH GIT_ASKPASS
    SSH_ASKPASS GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND PROMPT_COMMAND BROWSER SUDO_EDITOR KUBE_EDITOR SUDO_ASKPASS
    """.split()
)
_SETTING_VALUE = re.compile(r"GIT_CONFIG_(?:VALUE|KEY)_\d+")


def is_watched(name: str) -> bool:
    """Say whether a variable may make another program run something."""
    return name in _ORDINARY or _SETTING_VALUE.fullmatch(name) is not None


def inner(one: Simple) -> Iterator[Inner]:
    """What starts because of the variables that are set for a command."""
    for name, word in (*one.sets, *_of_words(one)):
        if not is_watched(name):
            continue
        through = (*one.through, name)
        if name in _COMMANDS and word.text.strip():
            yield Script(word.text, through, guess=True)
        if name.startswith("GIT_CONFIG_KEY"):
            if _runs_by_setting(word.text):
                yield Opaque(_RULE, one.source, one.through)
        elif not name.startswith("GIT_CONFIG_VALUE") and not _is_ordinary(one, name, word):
            yield Opaque(_RULE, one.source, one.through)


def _is_ordinary(one: Simple, name: str, word: Word) -> bool:
    if not word.known and word.text.startswith("$") and name != "LD_PRELOAD":
        return name not in ("BASH_ENV", "PROMPT_COMMAND") or not word.made_by
    return _ORDINARY[name](one, word.text)


def _runs_by_setting(key: str) -> bool:
    from reflectloop.policy import gitstarts  # noqa: PLC0415 - it asks this module's neighbours in turn

    return gitstarts.helper(key) is not None


def _of_words(one: Simple) -> Iterator[tuple[str, Word]]:
    """`env X=… program`, `sudo X=… program`, `export X=…` given as words."""
    if one.program not in ("env", "sudo", "export", "declare", "typeset", "cross-env", "systemd-run", "setx"):
        return
    for word in one.words[1:]:
        name, equals, value = word.text.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            yield name, word._replace(text=value)
