"""Find commands in the options, settings or arguments of programs that can start other programs."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from reflectloop.policy import command_values, options, path_classes, sed_scripts
from reflectloop.policy.files import FETCHERS
from reflectloop.policy.simple_command import Inner, Opaque, ShellScript, ShellWord, SimpleCommand
from reflectloop.system import patterns

_STDIN = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_TARS_RUN = patterns.lazy(r"--checkpoint-action=exec=(.*)", re.DOTALL)
_TAR = frozenset(
    "--to-command --info-script --new-volume-script --rsh-command --rmt-command -F --use-compress-program -I".split()
)
_SSH = frozenset("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -P".split())
_SSH_RUNS = patterns.lazy(
    r"(?i)(proxycommand|localcommand|knownhostscommand|proxyusefdpass|include|pkcs11provider|securitykeyprovider)"
    r"\s*[= ]\s*(.*)",
    re.DOTALL,
)
_MAKE = frozenset("-f --file --makefile -C --directory -j --jobs -I -o -W -l --eval -E".split())
_RECIPE = patterns.lazy(r"^(?:\t|[^#\n=]*::?[^=\n]*;)[ \t@+-]*(.*)$", re.MULTILINE)
_MAKE_SHELL = patterns.lazy(r"\$[({]shell\s+([^)}]*)[)}]|!=\s*(.*)")
_CMAKE = {"rm": "rm", "remove": "rm", "copy": "cp", "rename": "mv", "copy_directory": "cp", "touch": "touch"}
_LIFECYCLE = patterns.lazy(
    r"scripts\.(?:pre|post)?(?:install|prepare|publish|pack|uninstall|prepublishOnly)$|script-shell"
)
_TCL = patterns.lazy(r"(?:^|[;\[{\n]|\s)(?:spawn|exec|system)\s+(?:-noecho\s+|--\s+)?([^;\]\n}]+)")
_GDB = patterns.lazy(r"(?:shell|!|pipe)\s*(.*)|(?:call|print|p)\b.*\bsystem\s*\(\s*\\?\"?([^\")]*)", re.DOTALL)


def _option(flags: str, allowed: frozenset[str], *, taking: str = "") -> Callable[[SimpleCommand], Iterator[Inner]]:
    """Return a reader for programs with options whose value is a command that should be one of a few."""
    named = frozenset(flags.split())

    def read_options(command: SimpleCommand) -> Iterator[Inner]:
        args = options.split(command.words[1:], named | frozenset(taking.split()))
        for name, value in args.values:
            if name in named:
                yield from command_values.inner_commands(
                    value, allowed, command.source, (*command.through, command.program)
                )

    return read_options


def _tar(command: SimpleCommand) -> Iterator[Inner]:
    through = (*command.through, command.program)
    for text in command.texts[1:]:
        action = _TARS_RUN.match(text)
        if action:
            yield from command_values.inner_commands(action[1], frozenset(), command.source, through)
    following = [word.text for word in command.words]
    if "--checkpoint-action" in following and any(text.startswith("exec=") for text in following):
        yield Opaque(command_values.RULE, command.source, command.through)
    for name, value in options.split(command.words[1:], _TAR).values:
        if name in _TAR and not (name == "-F" and not value):
            allowed = command_values.PACKERS if name in ("-I", "--use-compress-program") else frozenset[str]()
            yield from command_values.inner_commands(value, allowed, command.source, through)


def _ssh(command: SimpleCommand) -> Iterator[Inner]:
    through = (*command.through, command.program)
    args = options.split(command.words[1:], _SSH, stop=True)
    for name, value in args.values:
        match = _SSH_RUNS.match(value) if name == "-o" else None
        if match:
            allowed = command_values.PROXIES if match[1].lower() == "proxycommand" else frozenset[str]()
            yield from command_values.inner_commands(match[2], allowed, command.source, through)
        elif name == "-F" and path_classes.path_class(ShellWord(value), command.folder) in ("temp", "network"):
            yield Opaque(command_values.RULE, command.source, command.through)
        elif name == "-S" and command.program in ("scp", "sftp"):
            yield from command_values.inner_commands(value, command_values.REMOTES, command.source, through)


def _make(command: SimpleCommand) -> Iterator[Inner]:
    through = (*command.through, command.program)
    args = options.split(command.words[1:], _MAKE)
    for name, value in args.values:
        if name in ("--eval", "-E"):
            yield from _makefile(value, through)
            yield Opaque(command_values.RULE, command.source, command.through)
        elif name in ("-f", "--file", "--makefile") and value in _STDIN and command.feed is not None:
            if command.feed.text is None:
                yield Opaque("shell.piped", command.source, command.through)
            else:
                yield from _makefile(command.feed.text, through)
        elif name in ("-f", "--file", "--makefile"):
            yield from _written_makefile(command, value, through)
    if not args.value("-f", "--file", "--makefile"):
        folder = args.value("-C", "--directory") or ""
        for name in ("GNUmakefile", "makefile", "Makefile"):
            yield from _written_makefile(command, posixpath.join(folder, name), through)
    yield from _make_variables(command, args.rest, through)


def _make_variables(command: SimpleCommand, words: Sequence[ShellWord], through: tuple[str, ...]) -> Iterator[Inner]:
    """Yield the commands in the variables that are given to `make`."""
    for word in words:
        name, equals, value = word.text.partition("=")
        if equals and name.rstrip(":?+") == "SHELL":
            yield from command_values.inner_commands(value, command_values.SHELL_NAMES, command.source, through)
        elif equals:
            yield from (ShellScript(match[1] or match[2], through, guess=True) for match in _MAKE_SHELL.finditer(value))
            if re.match(r"(?:\S*/)?(?:ba|da|z)?sh\s+-\w*c\s", value):
                yield ShellScript(value.rstrip("# "), through, guess=True)


def _written_makefile(command: SimpleCommand, name: str, through: tuple[str, ...]) -> Iterator[Inner]:
    written = command.files.get(command.path(name))
    if written is not None and written.text is not None:
        yield from _makefile(written.text, through)


def _makefile(text: str, through: tuple[str, ...]) -> Iterator[Inner]:
    """Yield the shell lines of a makefile."""
    yield from (ShellScript(match[1].replace("$$", "$"), through, guess=True) for match in _RECIPE.finditer(text))
    yield from (ShellScript(match[1] or match[2], through, guess=True) for match in _MAKE_SHELL.finditer(text))


def _cmake(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the command that `cmake -E` stands for, such as `rm`, `cp` or `env`."""
    texts = command.texts
    if "-P" in texts[:-1]:
        script = command.words[texts.index("-P") + 1]
        if script.made_by or script.text in _STDIN:
            yield Opaque(command_values.RULE, command.source, command.through)
    if "-E" not in texts[:-1]:
        return
    at = texts.index("-E") + 1
    sub, rest = texts[at], command.words[at + 1 :]
    if sub == "remove_directory":
        yield command.inside((ShellWord("rm"), ShellWord("-rf"), *rest))
    elif sub in _CMAKE:
        yield command.inside((ShellWord(_CMAKE[sub]), *rest))
    elif sub in ("env", "time"):
        yield command.inside((ShellWord("env"), *rest))
    elif sub == "chdir" and len(rest) > 1:
        yield command.inside(rest[1:])


def _npm(command: SimpleCommand) -> Iterator[Inner]:
    through = (*command.through, command.program)
    yield from _option_scripts(command, frozenset(("-c", "--call")))
    yield from _written_scripts(command, through)
    texts = command.texts[1:]
    if (
        texts[:2] == ["pkg", "set"]
        or texts[:1] == ["set-script"]
        or texts[:2] in (["config", "set"], ["set", "script-shell"])
    ):
        for text in texts[1:]:
            name, equals, value = text.partition("=")
            if equals and name.startswith("scripts."):
                yield ShellScript(value, through, guess=True)
            if _LIFECYCLE.match(name):
                yield Opaque(command_values.RULE, command.source, command.through)
        if texts[0] == "set-script" and len(texts) > 2:  # noqa: PLR2004 - a name and a command
            yield ShellScript(texts[2], through, guess=True)
    for name, value in options.split(command.words[1:], frozenset(("--script-shell",))).values:
        if name == "--script-shell":
            yield from command_values.inner_commands(value, command_values.SHELL_NAMES, command.source, through)


def _written_scripts(command: SimpleCommand, through: tuple[str, ...]) -> Iterator[Inner]:
    """Yield the scripts of a `package.json` that the same line wrote."""
    written = command.files.get(command.path("package.json"))
    try:
        package = json.loads(written.text or "") if written else {}
    except ValueError:
        return
    lines = package.get("scripts") if isinstance(package, dict) else None
    for line in lines.values() if isinstance(lines, dict) else ():
        if isinstance(line, str):
            yield ShellScript(line, through)


def _option_scripts(command: SimpleCommand, flags: frozenset[str]) -> Iterator[Inner]:
    for name, value in options.split(command.words[1:], flags).values:
        if name in flags and value:
            yield ShellScript(value, (*command.through, command.program), command.env)


def _tracer(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the command that `strace -o '|command'` pipes its output to."""
    for name, value in options.split(command.words[1:], frozenset(("-o", "--output")), stop=True).values:
        if name in ("-o", "--output") and value[:1] in ("|", "!"):
            yield ShellScript(value[1:], (*command.through, command.program))


def _java(command: SimpleCommand) -> Iterator[Inner]:
    yield from _JAVA_OPTIONS(command)
    for option, word in itertools.pairwise(command.words):
        if option.text in ("-jar", "-cp", "-classpath") and set(word.made_by) & FETCHERS:
            yield Opaque("shell.fetched", command.source, command.through)


def _tcl(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the commands in `expect -c` and in the input of `tclsh`."""
    args = options.split(command.words[1:], frozenset(("-c",)))
    codes = [value for name, value in args.values if name == "-c"]
    codes += [command.feed.text] if command.feed and command.feed.text else []
    if (
        command.feed is not None
        and command.feed.text is None
        and set(command.feed.made_by) & FETCHERS
        and len(command.words) == 1
    ):
        yield Opaque("shell.fetched", command.source, command.through)
    for code in codes:
        for match in _TCL.finditer(code):
            yield ShellScript(match[1].strip("{}"), (*command.through, command.program), guess=True)


def _gdb(command: SimpleCommand) -> Iterator[Inner]:
    for name, value in options.split(command.words[1:], frozenset(("-ex", "--eval-command", "-iex", "-o"))).values:
        match = _GDB.match(value) if name in ("-ex", "--eval-command", "-iex", "-o") else None
        if match:
            yield from command_values.inner_commands(
                match[1] or match[2] or "", frozenset(), command.source, (*command.through, command.program)
            )


def _sed(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the effects of the `e` command, of the flag `e` of `s`, and of the file that `w` writes."""
    through = (*command.through, command.program)
    args = options.split(command.words[1:], frozenset(("-e", "--expression", "-f", "--file", "-l")))
    codes = [value for name, value in args.values if name in ("-e", "--expression")]
    codes = codes or [word.text for word in args.rest[:1]]
    if args.value("-f", "--file") in _STDIN and command.feed and command.feed.text:
        codes.append(command.feed.text)
    for code in codes:
        for effect in sed_scripts.effects(code):
            if effect.kind == "writes":
                if path_classes.path_class(ShellWord(effect.text), command.folder) in (
                    "machine",
                    "profile",
                    "private",
                    "device",
                ):
                    yield Opaque("shell.writes-by-code", command.source, command.through)
            elif effect.text:
                yield ShellScript(effect.text, through, guess=True)
                yield Opaque(command_values.RULE, command.source, command.through)
            else:
                yield Opaque(command_values.RULE, command.source, command.through)


def _sqlite(command: SimpleCommand) -> Iterator[Inner]:
    texts = [*command.texts[1:], *((command.feed.text or "").splitlines() if command.feed else ())]
    for text in texts:
        match = re.match(r"\s*\.(?:shell|system)\s+(.*)|\s*\.(?:once|output)\s+\|(.*)|\s*\.(load)\s", text, re.DOTALL)
        if match:
            yield from command_values.inner_commands(
                match[1] or match[2] or "load", frozenset(), command.source, (*command.through, command.program)
            )


def _database(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the commands after `\\!` and `\\o |` in database clients."""
    texts = [*command.texts[1:], *((command.feed.text or "").splitlines() if command.feed else ())]
    for text in texts:
        match = re.match(
            r"\s*(?:\\!|\\system|system\s)\s*(.*)|.*\\(?:o|g|copy\b.*program)\s*\|?\s*'?(.*)", text, re.DOTALL
        )
        if match and (match[1] or "|" in text or "program" in text.lower()):
            yield from command_values.inner_commands(
                match[1] or match[2], command_values.PAGERS, command.source, (*command.through, command.program)
            )


def _ed(command: SimpleCommand) -> Iterator[Inner]:
    """Yield `!command` lines in the input of `ed` or `ex`."""
    for line in (command.feed.text or "").splitlines() if command.feed else ():
        match = re.match(r"[\d,$.%]*\s*[rwe]?\s*!(.*)", line)
        if match:
            yield ShellScript(match[1], (*command.through, command.program), guess=True)


def _pager(command: SimpleCommand) -> Iterator[Inner]:
    for text in command.texts[1:]:
        match = re.match(r"\+\+?!(.*)", text, re.DOTALL)
        if match:
            yield from command_values.inner_commands(
                match[1], frozenset(), command.source, (*command.through, command.program)
            )


def _vim(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the commands of `:!command` and `%!command`."""
    args = options.split(command.words[1:], frozenset(("-c", "--cmd")))
    commands = [value for name, value in args.values if name in ("-c", "--cmd")]
    for text in (*commands, *(word.text[1:] for word in args.rest if word.text.startswith("+"))):
        match = re.match(r":?\s*(?:silent\s*)?[%\d,$.]*(?:r|w|read|write)?\s*!(.*)", text, re.DOTALL)
        if match:
            yield ShellScript(match[1], (*command.through, command.program), guess=True)


def _cargo(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the program in a `--config` setting."""
    for name, value in options.split(command.words[1:], frozenset(("--config",))).values:
        match = re.match(
            r"(?:.*\.)?(?:runner|rustc-wrapper|rustc|linker|rustdoc|credential-provider)\s*=\s*(.*)", value, re.DOTALL
        )
        if name == "--config" and match:
            program = re.sub(r"[\[\]\"',]+", " ", match[1])
            yield from command_values.inner_commands(program, _CARGO, command.source, (*command.through, "cargo"))


_CARGO = frozenset(
    "sccache clang gcc cc lld mold qemu-x86_64 qemu-aarch64 wasmtime wasm-bindgen-test-runner rust-lld".split()
)


def _service(command: SimpleCommand) -> Iterator[Inner]:
    args = options.split(
        command.words[1:], frozenset("--exec -x --startas -a --user -u --chuid -c --pidfile -p".split())
    )
    program = next((value for name, value in args.values if name in ("--exec", "-x", "--startas", "-a")), "")
    if program:
        yield command.inside((ShellWord(program), *args.rest))


def _capsh(command: SimpleCommand) -> Iterator[Inner]:
    texts = command.texts
    if "--" in texts:
        yield command.inside((ShellWord("bash"), *command.words[texts.index("--") + 1 :]))


def _coproc(command: SimpleCommand) -> Iterator[Inner]:
    words = tuple(word for word in command.words[1:] if word.text not in ("{", "}", "("))
    if words:
        yield command.inside(words)
    if len(words) > 1 and re.fullmatch(r"[A-Z_]\w*", words[0].text):
        yield command.inside(words[1:])


def _loader(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the program that `ld-linux.so` runs."""
    taking = frozenset("--preload --library-path --argv0 --audit --inhibit-rpath --glibc-hwcaps-prepend".split())
    words = options.split(command.words[1:], taking, stop=True).rest
    if words:
        yield command.inside(words)


def dynamic_loader(program: str) -> Callable[[SimpleCommand], Iterator[Inner]] | None:
    return (
        _loader
        if re.fullmatch(r"ld(?:-linux|-musl|-uclibc)?(?:-[\w.-]+)?\.so(?:\.\d+)*|ld-\d[\d.]*\.so", program)
        else None
    )


def _go(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the programs of `-exec`, `-toolexec` and `-vettool`, which may have one dash or two."""
    texts = command.texts[1:]
    for at, text in enumerate(texts):
        match = re.fullmatch(r"--?(?:exec|toolexec|vettool)(?:=(.*))?", text, re.DOTALL)
        if match:
            value = match[1] if match[1] is not None else "".join(texts[at + 1 : at + 2])
            yield from command_values.inner_commands(value, _GO, command.source, (*command.through, "go"))


_GO = frozenset("sudo wasmtime wasmer node go_js_wasm_exec go_wasip1_wasm_exec qemu-aarch64 qemu-arm garble".split())


def _loads(pattern: str, starts: str = "") -> Callable[[SimpleCommand], Iterator[Inner]]:
    """Return a reader for programs with options that load code; places where anybody may write need confirmation.

    `pattern` matches the whole word, or its prefix; `starts` are options whose value is a command.
    """
    option = patterns.lazy(pattern)
    starting_option = patterns.lazy(starts or r"(?!)", re.DOTALL)

    def read_options(command: SimpleCommand) -> Iterator[Inner]:
        texts = command.texts[1:]
        for at, text in enumerate(texts):
            loaded = option.match(text)
            value = (text[loaded.end() :] or "".join(texts[at + 1 : at + 2])) if loaded else ""
            if value and (
                path_classes.path_class(ShellWord(value)) in ("temp", "network") or re.match(r"data:|https?:|//", value)
            ):
                yield Opaque(command_values.RULE, command.source, command.through)
            match = starting_option.match(text)
            if match:
                yield from command_values.inner_commands(
                    text[match.end() :], frozenset(), command.source, (*command.through, command.program)
                )

    return read_options


_JAVA_OPTIONS = _loads(r"-javaagent:|-agentpath:|-Xbootclasspath\S*?:", r"-XX:On\w+=")
_COMPILER = _loads(r"-fplugin=|-B=?|-specs=|--config[= ]?", r"-wrapper[, ]?(?=.)")


def _compiler(command: SimpleCommand) -> Iterator[Inner]:
    yield from _COMPILER(command)
    if "-wrapper" in command.texts:
        yield Opaque(command_values.RULE, command.source, command.through)


def _mercurial(command: SimpleCommand) -> Iterator[Inner]:
    for name, value in options.split(command.words[1:], frozenset(("--config", "--ssh", "-e"))).values:
        setting = re.match(
            r"(?:alias|hooks|extensions|extdiff|merge-tools|ui\.(?:editor|ssh))[^=]*=(.*)", value, re.DOTALL
        )
        if name == "--config" and setting and setting[1]:
            yield from command_values.inner_commands(
                setting[1], command_values.EDITORS | command_values.REMOTES, command.source, (*command.through, "hg")
            )
        elif name in ("--ssh", "-e"):
            yield from command_values.inner_commands(
                value, command_values.REMOTES, command.source, (*command.through, "hg")
            )


def _ssh_library(command: SimpleCommand) -> Iterator[Inner]:
    """Yield a confirmation if `ssh-keygen -D` or `ssh-add -s` loads a library from an unusual place."""
    for name, value in options.split(command.words[1:], frozenset(("-D", "-s"))).values:
        ordinary = re.match(r"(?:/usr|/opt|/lib|/nix/store|/Library|/run/current-system)/", value)
        if name in ("-D", "-s") and "/" in value and not ordinary:
            yield Opaque(command_values.RULE, command.source, command.through)


LAUNCHERS: dict[str, Callable[[SimpleCommand], Iterator[Inner]]] = {
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("ssh", "scp", "sftp", "autossh", "ssh-copy-id"), _ssh),
    **dict.fromkeys(("make", "gmake", "bmake"), _make),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _npm),
    **dict.fromkeys(("expect", "tclsh", "wish"), _tcl),
    **dict.fromkeys(("gdb", "lldb"), _gdb),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("sqlite3", "sqlite"), _sqlite),
    **dict.fromkeys(("psql", "mysql", "mariadb"), _database),
    "capsh": _capsh,
    "cmake": _cmake,
    "coproc": _coproc,
    "start-stop-daemon": _service,
    "rsync": _option(
        "-e --rsh --rsync-path", command_values.REMOTES | {"rsync", "sudo"}, taking="-f --filter --exclude"
    ),
    "zip": _option("-TT --unzip-command", frozenset(("unzip",)), taking="-x -i -b -t"),
    "man": _option("-P --pager -H --html", command_values.PAGERS | command_values.BROWSERS, taking="-M -L -m -S -l"),
    "sort": _option("--compress-program", command_values.PACKERS, taking="-k -t -S -T -o"),
    "split": _option("--filter", command_values.PACKERS, taking="-l -b -n -a"),
    "rdesktop": _option("-r", frozenset(("disk", "clipboard"))),
    "wget": _option("--use-askpass", command_values.ASKERS, taking="-O -o -P -U"),
    "rg": _option(
        "--pre --hostname-bin",
        command_values.PACKERS | command_values.PAGERS | {"pdftotext"},
        taking="-e -g -t -A -B -C",
    ),
    **dict.fromkeys(("ed", "ex", "red"), _ed),
    **dict.fromkeys(("less", "more", "most"), _pager),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "gvim"), _vim),
    "cargo": _cargo,
    "tcpdump": _option("-z", command_values.PACKERS, taking="-i -w -r -G -C -W -c -s -Z"),
    "borg": _option("--rsh", command_values.REMOTES),
    "svn": _option("--diff-cmd --diff3-cmd --editor-cmd", command_values.DIFFERS | command_values.EDITORS),
    "hg": _mercurial,
    "go": _go,
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), _compiler),
    **dict.fromkeys(
        ("node", "tsx", "ts-node", "mocha"), _loads(r"(?:-r|--require|--import|--loader|--experimental-loader)=?")
    ),
    "ruby": _loads(r"-[rI]"),
    "perl": _loads(r"-[IM](?=.)"),
    "php": _loads(r"-d\s?(?:auto_\w+_file|(?:zend_)?extension)=|(?:auto_\w+_file|(?:zend_)?extension)="),
    **dict.fromkeys(("java", "javaw"), _java),
    **dict.fromkeys(("strace", "ltrace"), _tracer),
    **dict.fromkeys(("lua", "luajit"), _loads(r"-l")),
    **dict.fromkeys(("ssh-keygen", "ssh-add"), _ssh_library),
    "gradle": _loads(r"(?:-I|--init-script)=?"),
}
