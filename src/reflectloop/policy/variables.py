"""Judge environment variables that make other programs run something: which values are ordinary."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from reflectloop.policy import command_values, download_sources, path_classes
from reflectloop.policy.simple_command import SHELLS, Inner, Opaque, ShellScript, ShellWord, SimpleCommand
from reflectloop.system import patterns

_RULE = "shell.variable-runs"
_LIBRARIES = patterns.lazy(r"(?:/usr|/opt|/lib|/nix/store|/snap)[/\w]")
_ALLOCATORS = patterns.lazy(
    r"(?:^|/)lib(?:jemalloc|tcmalloc|mimalloc|asan|ubsan|tsan|faketime|eatmydata|nss_wrapper|gcc_s)[^/]*$"
)
_MODULE = patterns.lazy(r"(?:--require|-r|--import|--loader|--experimental-loader)[= ]?\s*(\S+)")
_PERL = patterns.lazy(r"(?:-[wWtT]+|-M[\w:]+(?:=[\w,/:.-]+)?|-I?(?:lib|blib/\w+)|\s)+")
_RUBY = patterns.lazy(
    r"(?:-W\S*|--?(?:yjit|jit|enable\S*|disable\S*|encoding\S*)|-w|-r(?:bundler/setup|[a-z_]+)|-I\s?\w+|\s)+"
)
_JAVA = patterns.lazy(r"-javaagent:|-agentpath:|-agentlib:(?!jdwp)|-XX:On\w+=|-Xbootclasspath")
_PASSIVE = patterns.lazy(r"history\s+-[an](?:;\s*history\s+-\w)*;?|:|true|")


def _commands(allowed: frozenset[str]) -> Callable[[SimpleCommand, str], bool]:
    return lambda _, value: command_values.ordinary(value, allowed)


def _outside(value: str) -> bool:
    """Return True if a path is in a place where anybody may write."""
    return path_classes.path_class(ShellWord(value)) in ("temp", "network") or value.startswith(
        ("http:", "https:", "data:")
    )


def _preload(_: SimpleCommand, value: str) -> bool:
    parts = re.split(r"[:\s]+", value.strip())
    return all(not part or _LIBRARIES.match(part) or _ALLOCATORS.search(part) or part[0] == "$" for part in parts)


def _paths(_: SimpleCommand, value: str) -> bool:
    """Return True if every folder that PATH searches first is the user's own."""
    folders = value.split(":")
    ahead = folders[: next((at for at, folder in enumerate(folders) if "PATH" in folder), len(folders))]
    return not any(
        (_outside(folder) and not folder.startswith("$")) or folder in (".", "") for folder in ahead if folders != [""]
    )


def _inside(_: SimpleCommand, value: str) -> bool:
    return not any(_outside(part) and not part.startswith("$") for part in value.split(":"))


def _node(_: SimpleCommand, value: str) -> bool:
    """Return True if node first loads only packages, or files of the tests or the project's set-up."""
    names = [match[1].strip("\"'") for match in _MODULE.finditer(value)]
    return not any(
        name.startswith(("/", "~", "data:", "http", "file:", ".."))
        or (name.startswith((".", "$")) and not _SET_UP.search(name))
        for name in names
    )


_SET_UP = patterns.lazy(
    r"(?i)test|spec|setup|register|\.pnp|instrument|tracing|polyfill|loader|mock|env|hook|dist/|build/"
)


def _perl(_: SimpleCommand, value: str) -> bool:
    """Return True if perl first loads only well-known modules."""
    modules = re.findall(r"-[Mm]-?([\w:]+)", value)
    return not value or (_PERL.fullmatch(value) is not None and all(_PERL_MODULE.match(name) for name in modules))


_PERL_MODULE = patterns.lazy(
    r"(?:Devel|Test|Carp|Data|Time|POSIX|List|Scalar|File|Getopt|JSON|Encode|Module|App|Moose|Moo|Mojo|IO)(?:::|$)"
    r"|(?:strict|warnings|utf8|lib|feature|diagnostics|open|bigint|bignum|autodie|Modern|common|local|v?5)\b"
)
_RUBY_MODULE = patterns.lazy(
    r"-r\s*(?:bundler|rubygems|debug|byebug|pry|json|yaml|set|logger|simplecov|coverage|minitest|rspec|warning|uri"
    r"|date|time|pp|ostruct|openssl|securerandom|stringio|benchmark|socket|spring|bootsnap|zeitwerk|sorbet)"
)


def _ruby(_: SimpleCommand, value: str) -> bool:
    """Return True if ruby first loads only well-known libraries."""
    loads = re.findall(r"(?:^|\s)-r\s*\S+", value)
    return not value or (_RUBY.fullmatch(value) is not None and all(_RUBY_MODULE.match(load.strip()) for load in loads))


def _source(_: SimpleCommand, value: str) -> bool:
    """Return True if packages come from a registry, or from this machine."""
    return not download_sources.is_unproven(value)


def _trusted(_: SimpleCommand, value: str) -> bool:
    hosts = value.split()
    return not any(download_sources.is_unproven(f"https://{host}/") for host in hosts)


def _go(name: str) -> Callable[[SimpleCommand, str], bool]:
    return lambda command, value: (
        download_sources.is_ordinary_go(name, value) and (name != "GOFLAGS" or _inside(command, value))
    )


def _startup(command: SimpleCommand, value: str) -> bool:
    """Return True unless `ENV` names a file for a shell to read; elsewhere it names a deployment stage."""
    return command.program not in SHELLS or "/" not in value


def _nothing(_: SimpleCommand, value: str) -> bool:
    return value in ("", "/dev/null", "0", "1") or re.fullmatch(r"(?:~|\$\{?HOME\}?)/\.[\w./-]+", value) is not None


def _unless(pattern: re.Pattern[str]) -> Callable[[SimpleCommand, str], bool]:
    return lambda _, value: pattern.search(value) is None


def _only(pattern: re.Pattern[str]) -> Callable[[SimpleCommand, str], bool]:
    return lambda _, value: not value or pattern.fullmatch(value) is not None


# For each variable, a function that returns True if a value is ordinary.
_ORDINARY: dict[str, Callable[[SimpleCommand, str], bool]] = {
    **dict.fromkeys(
        ("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER", "AWS_PAGER", "GH_PAGER"), _commands(command_values.PAGERS)
    ),
    **dict.fromkeys(
        ("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "SUDO_EDITOR", "KUBE_EDITOR", "FCEDIT", "HGEDITOR"),
        _commands(command_values.EDITORS),
    ),
    **dict.fromkeys(
        ("GIT_SSH_COMMAND", "GIT_SSH", "RSYNC_RSH", "CVS_RSH", "SVN_SSH"), _commands(command_values.REMOTES)
    ),
    **dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS"), _commands(command_values.ASKERS)),
    "GIT_EXTERNAL_DIFF": _commands(command_values.DIFFERS),
    "GIT_PROXY_COMMAND": _commands(command_values.PROXIES),
    "BROWSER": _commands(command_values.BROWSERS),
    "SHELL": _commands(command_values.SHELL_NAMES),
    **dict.fromkeys(("LESSOPEN", "LESSCLOSE"), _unless(patterns.lazy(r"^(?!.*lesspipe).*[|/$;]", re.DOTALL))),
    **dict.fromkeys(("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"), _preload),
    **dict.fromkeys(
        ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PERL5LIB", "RUBYLIB"), _inside
    ),
    **dict.fromkeys(("NODE_PATH", "CLASSPATH", "GCONV_PATH", "OPENSSL_CONF", "PYTHONUSERBASE", "GEM_PATH"), _inside),
    **dict.fromkeys(("RUSTC", "RUSTC_WRAPPER", "CARGO", "CC", "CXX", "LD", "ANT_HOME", "M2_HOME"), _inside),
    **dict.fromkeys(
        ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_TEMPLATE_DIR", "GIT_EXEC_PATH", "ZDOTDIR"), _inside
    ),
    **dict.fromkeys(("MAKEFILES", "npm_config_userconfig", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE"), _inside),
    "PATH": _paths,
    "NODE_OPTIONS": _node,
    "PERL5OPT": _perl,
    "PERL5DB": _nothing,
    "RUBYOPT": _ruby,
    **dict.fromkeys(
        (
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "MAVEN_OPTS",
            "GRADLE_OPTS",
            "JAVA_OPTS",
            "SBT_OPTS",
        ),
        _unless(_JAVA),
    ),
    **dict.fromkeys(
        """
        PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS UV_INDEX_URL UV_EXTRA_INDEX_URL UV_DEFAULT_INDEX UV_INDEX
        UV_FIND_LINKS npm_config_registry NPM_CONFIG_REGISTRY YARN_REGISTRY YARN_NPM_REGISTRY_SERVER BUNDLE_MIRROR__ALL
        HOMEBREW_BOTTLE_DOMAIN RUSTUP_DIST_SERVER RUSTUP_UPDATE_ROOT ELECTRON_MIRROR COMPOSER_REPO_PACKAGIST
        """.split(),
        _source,
    ),
    **dict.fromkeys(("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"), _trusted),
    **{name: _go(name) for name in "GOPROXY GOINSECURE GONOSUMDB GONOSUMCHECK GOSUMDB GOFLAGS".split()},
    **dict.fromkeys(("NODE_TLS_REJECT_UNAUTHORIZED", "PYTHONHTTPSVERIFY"), _unless(patterns.lazy(r"^0$"))),
    "GIT_SSL_NO_VERIFY": _only(patterns.lazy(r"0|false")),
    **dict.fromkeys(
        ("npm_config_strict_ssl", "NPM_CONFIG_STRICT_SSL", "YARN_STRICT_SSL"), _unless(patterns.lazy("false"))
    ),
    **dict.fromkeys(
        ("DOTNET_STARTUP_HOOKS", "COR_PROFILER_PATH", "CORECLR_PROFILER_PATH", "PHPRC", "PHP_INI_SCAN_DIR"), _inside
    ),
    **dict.fromkeys(("R_PROFILE_USER", "R_PROFILE", "R_ENVIRON_USER", "JULIA_LOAD_PATH", "BUNDLE_GEMFILE"), _inside),
    "ERL_FLAGS": _unless(patterns.lazy(r"-eval|-s\s|-run|-pa?\s*/tmp")),
    "ERL_AFLAGS": _unless(patterns.lazy(r"-eval|-run|-pa?\s*/tmp")),
    "ELIXIR_ERL_OPTIONS": _unless(patterns.lazy(r"-eval|-run|-pa?\s*/tmp")),
    "RUSTFLAGS": _unless(patterns.lazy(r"linker=(?:/tmp|/var/tmp|/dev/shm|\.)")),
    **dict.fromkeys(("BASH_ENV", "PYTHONSTARTUP", "LUA_INIT", "VIMINIT", "EXINIT", "GIT_CONFIG_PARAMETERS"), _nothing),
    "ENV": _startup,
    "PROMPT_COMMAND": _only(_PASSIVE),
    "PS4": _unless(patterns.lazy(r"\$\(|`")),
    "PS1": _unless(patterns.lazy(r"\$\((?!__|git|parse_|date|hostname|whoami|basename|pwd)|`")),
    "MAKEFLAGS": _unless(patterns.lazy(r"--eval|SHELL=|-f\s*\S*/")),
    "TAR_OPTIONS": _unless(patterns.lazy(r"exec=|--to-command|-I|--use-compress")),
    "GIT_ALLOW_PROTOCOL": _unless(patterns.lazy(r"ext")),
    "PYTHONWARNINGS": _unless(patterns.lazy(r"antigravity|/")),
    "PYTHONBREAKPOINT": _only(patterns.lazy(r"0|(?:i?pdb|pudb|web_pdb)\.set_trace")),
    **dict.fromkeys(("npm_config_script_shell", "NPM_CONFIG_SCRIPT_SHELL"), _commands(command_values.SHELL_NAMES)),
    **dict.fromkeys(("HISTSIZE", "HISTFILESIZE"), _unless(patterns.lazy(r"^0$"))),
    **dict.fromkeys(("HISTFILE",), _unless(patterns.lazy(r"^(?:/dev/null|)$"))),
}
_COMMANDS = frozenset(
    """
    PAGER GIT_PAGER MANPAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_SSH_COMMAND GIT_SSH RSYNC_RSH GIT_ASKPASS
    SSH_ASKPASS GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND PROMPT_COMMAND BROWSER SUDO_EDITOR KUBE_EDITOR SUDO_ASKPASS
    """.split()
)
# Variables of cargo that contain a name chosen by the user.
_CARGO = {
    patterns.lazy(r"CARGO_REGISTRIES_\w+_INDEX|CARGO_SOURCE_\w+_REGISTRY"): _source,
    patterns.lazy(r"CARGO_TARGET_\w+_(?:RUNNER|LINKER)|CARGO_BUILD_RUSTC(?:_WRAPPER)?|CARGO_BUILD_RUSTDOC"): _inside,
}
_SETTING_VALUE = patterns.lazy(r"GIT_CONFIG_(?:VALUE|KEY)_\d+")


def is_watched(name: str) -> bool:
    """Return True if a variable may make another program run something."""
    return name in _ORDINARY or _cargo_check(name) is not None or _SETTING_VALUE.fullmatch(name) is not None


def _cargo_check(name: str) -> Callable[[SimpleCommand, str], bool] | None:
    if not name.startswith("CARGO_"):
        return None
    return next((ordinary for pattern, ordinary in _CARGO.items() if pattern.fullmatch(name)), None)


def inner_commands(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the commands that start because of the variables set for a command."""
    for name, word in (*command.sets, *_assigned_arguments(command)):
        if not is_watched(name):
            continue
        through = (*command.through, name)
        if name in _COMMANDS and word.text.strip():
            yield ShellScript(word.text, through, guess=True)
        if name.startswith("GIT_CONFIG_KEY"):
            if _runs_by_setting(word.text):
                yield Opaque(_RULE, command.source, command.through)
        elif not name.startswith("GIT_CONFIG_VALUE") and not _is_ordinary(command, name, word):
            yield Opaque(_RULE, command.source, command.through)


def _is_ordinary(command: SimpleCommand, name: str, word: ShellWord) -> bool:
    if name == "PYTHONSTARTUP" and "/" in word.text:
        return _nothing(command, word.text)
    if not word.known and word.text.startswith("$") and name != "LD_PRELOAD":
        return name not in ("BASH_ENV", "PROMPT_COMMAND") or not word.made_by
    ordinary = _cargo_check(name) or _ORDINARY[name]
    return ordinary(command, word.text)


def _runs_by_setting(key: str) -> bool:
    from reflectloop.policy import git_programs  # noqa: PLC0415 - avoids an import cycle

    return git_programs.ordinary_programs(key) is not None


def _assigned_arguments(command: SimpleCommand) -> Iterator[tuple[str, ShellWord]]:
    """Yield the assignments in the arguments of `env X=… program`, `sudo X=… program` or `export X=…`."""
    if command.program not in (
        "env",
        "sudo",
        "export",
        "declare",
        "typeset",
        "cross-env",
        "systemd-run",
        "setx",
        "env-cmd",
    ):
        return
    for word in command.words[1:]:
        name, equals, value = word.text.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            yield name, word._replace(text=value)
