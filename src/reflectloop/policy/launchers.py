"""Programs with an option, a setting or a word of their own that starts another command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from reflectloop.policy import command_values, options, path_classes, sed_scripts
from reflectloop.policy.files import FETCHERS
from reflectloop.policy.simple_command import Inner, Opaque, ShellScript, ShellWord, SimpleCommand

_STDIN = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_TARS_RUN = re.compile(r"--checkpoint-action=exec=(.*)", re.DOTALL)
_TAR = frozenset(
    "--to-command --info-script --new-volume-script --rsh-command --rmt-command -F --use-compress-program -I".split()
)
_SSH = frozenset("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -P".split())
_SSH_RUNS = re.compile(
    r"(?i)(proxycommand|localcommand|knownhostscommand|proxyusefdpass|include|pkcs11provider|securitykeyprovider)"
    r"\s*[= ]\s*(.*)",
    re.DOTALL,
)
_MAKE = frozenset("-f --file --makefile -C --directory -j --jobs -I -o -W -l --eval -E".split())
_RECIPE = re.compile(r"^(?:\t|[^#\n=]*::?[^=\n]*;)[ \t@+-]*(.*)$", re.MULTILINE)
_MAKE_SHELL = re.compile(r"\$[({]shell\s+([^)}]*)[)}]|!=\s*(.*)")
_CMAKE = {"rm": "rm", "remove": "rm", "copy": "cp", "rename": "mv", "copy_directory": "cp", "touch": "touch"}
_LIFECYCLE = re.compile(
    r"scripts\.(?:pre|post)?(?:install|prepare|publish|pack|uninstall|prepublishOnly)$|script-shell"
)
_TCL = re.compile(r"(?:^|[;\[{\n]|\s)(?:spawn|exec|system)\s+(?:-noecho\s+|--\s+)?([^;\]\n}]+)")
_GDB = re.compile(r"(?:shell|!|pipe)\s*(.*)|(?:call|print|p)\b.*\bsystem\s*\(\s*\\?\"?([^\")]*)", re.DOTALL)


def _option(flags: str, allowed: frozenset[str], *, taking: str = "") -> Callable[[SimpleCommand], Iterator[Inner]]:
    """Programs with options whose value is a command that should be one of a few."""
    named = frozenset(flags.split())

    def found(one: SimpleCommand) -> Iterator[Inner]:
        given = options.split(one.words[1:], named | frozenset(taking.split()))
        for name, value in given.values:
            if name in named:
                yield from command_values.inner(value, allowed, one.source, (*one.through, one.program))

    return found


def _tar(one: SimpleCommand) -> Iterator[Inner]:
    through = (*one.through, one.program)
    for text in one.texts[1:]:
        action = _TARS_RUN.match(text)
        if action:
            yield from command_values.inner(action[1], frozenset(), one.source, through)
    following = [word.text for word in one.words]
    if "--checkpoint-action" in following and any(text.startswith("exec=") for text in following):
        yield Opaque(command_values.RULE, one.source, one.through)
    for name, value in options.split(one.words[1:], _TAR).values:
        if name in _TAR and not (name == "-F" and not value):
            allowed = command_values.PACKERS if name in ("-I", "--use-compress-program") else frozenset[str]()
            yield from command_values.inner(value, allowed, one.source, through)


def _ssh(one: SimpleCommand) -> Iterator[Inner]:
    through = (*one.through, one.program)
    given = options.split(one.words[1:], _SSH, stop=True)
    for name, value in given.values:
        found = _SSH_RUNS.match(value) if name == "-o" else None
        if found:
            allowed = command_values.PROXIES if found[1].lower() == "proxycommand" else frozenset[str]()
            yield from command_values.inner(found[2], allowed, one.source, through)
        elif name == "-F" and path_classes.of(ShellWord(value), one.folder) in ("temp", "network"):
            yield Opaque(command_values.RULE, one.source, one.through)
        elif name == "-S" and one.program in ("scp", "sftp"):
            yield from command_values.inner(value, command_values.REMOTES, one.source, through)


def _make(one: SimpleCommand) -> Iterator[Inner]:
    through = (*one.through, one.program)
    given = options.split(one.words[1:], _MAKE)
    for name, value in given.values:
        if name in ("--eval", "-E"):
            yield from _makefile(value, through)
            yield Opaque(command_values.RULE, one.source, one.through)
        elif name in ("-f", "--file", "--makefile") and value in _STDIN and one.feed is not None:
            if one.feed.text is None:
                yield Opaque("shell.piped", one.source, one.through)
            else:
                yield from _makefile(one.feed.text, through)
        elif name in ("-f", "--file", "--makefile"):
            yield from _written_makefile(one, value, through)
    for word in given.rest:
        name, equals, value = word.text.partition("=")
        if equals and name.rstrip(":?+") == "SHELL":
            yield from command_values.inner(value, command_values.SHELL_NAMES, one.source, through)
        elif equals:
            yield from (ShellScript(found[1] or found[2], through, guess=True) for found in _MAKE_SHELL.finditer(value))
            if re.match(r"(?:\S*/)?(?:ba|da|z)?sh\s+-\w*c\s", value):
                yield ShellScript(value.rstrip("# "), through, guess=True)


def _written_makefile(one: SimpleCommand, name: str, through: tuple[str, ...]) -> Iterator[Inner]:
    written = one.files.get(one.path(name))
    if written is not None and written.text is not None:
        yield from _makefile(written.text, through)


def _makefile(text: str, through: tuple[str, ...]) -> Iterator[Inner]:
    """The shell lines of a makefile."""
    yield from (ShellScript(found[1].replace("$$", "$"), through, guess=True) for found in _RECIPE.finditer(text))
    yield from (ShellScript(found[1] or found[2], through, guess=True) for found in _MAKE_SHELL.finditer(text))


def _cmake(one: SimpleCommand) -> Iterator[Inner]:
    """`cmake -E` does what `rm`, `cp` and `env` do."""
    texts = one.texts
    if "-E" not in texts[:-1]:
        return
    at = texts.index("-E") + 1
    sub, rest = texts[at], one.words[at + 1 :]
    if sub == "remove_directory":
        yield one.inside((ShellWord("rm"), ShellWord("-rf"), *rest))
    elif sub in _CMAKE:
        yield one.inside((ShellWord(_CMAKE[sub]), *rest))
    elif sub in ("env", "time"):
        yield one.inside((ShellWord("env"), *rest))
    elif sub == "chdir" and len(rest) > 1:
        yield one.inside(rest[1:])


def _npm(one: SimpleCommand) -> Iterator[Inner]:
    through = (*one.through, one.program)
    yield from _option_scripts(one, frozenset(("-c", "--call")))
    texts = one.texts[1:]
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
                yield Opaque(command_values.RULE, one.source, one.through)
        if texts[0] == "set-script" and len(texts) > 2:  # noqa: PLR2004 - a name and a command
            yield ShellScript(texts[2], through, guess=True)
    for name, value in options.split(one.words[1:], frozenset(("--script-shell",))).values:
        if name == "--script-shell":
            yield from command_values.inner(value, command_values.SHELL_NAMES, one.source, through)


def _option_scripts(one: SimpleCommand, flags: frozenset[str]) -> Iterator[Inner]:
    for name, value in options.split(one.words[1:], flags).values:
        if name in flags and value:
            yield ShellScript(value, (*one.through, one.program), one.env)


def _tcl(one: SimpleCommand) -> Iterator[Inner]:
    """`expect -c` and what `tclsh` reads."""
    given = options.split(one.words[1:], frozenset(("-c",)))
    codes = [value for name, value in given.values if name == "-c"]
    codes += [one.feed.text] if one.feed and one.feed.text else []
    if one.feed is not None and one.feed.text is None and set(one.feed.made_by) & FETCHERS and len(one.words) == 1:
        yield Opaque("shell.fetched", one.source, one.through)
    for code in codes:
        for found in _TCL.finditer(code):
            yield ShellScript(found[1].strip("{}"), (*one.through, one.program), guess=True)


def _gdb(one: SimpleCommand) -> Iterator[Inner]:
    for name, value in options.split(one.words[1:], frozenset(("-ex", "--eval-command", "-iex", "-o"))).values:
        found = _GDB.match(value) if name in ("-ex", "--eval-command", "-iex", "-o") else None
        if found:
            yield from command_values.inner(
                found[1] or found[2] or "", frozenset(), one.source, (*one.through, one.program)
            )


def _sed(one: SimpleCommand) -> Iterator[Inner]:
    """The `e` command, the flag `e` of `s`, and what `w` writes to."""
    through = (*one.through, one.program)
    given = options.split(one.words[1:], frozenset(("-e", "--expression", "-f", "--file", "-l")))
    codes = [value for name, value in given.values if name in ("-e", "--expression")]
    codes = codes or [word.text for word in given.rest[:1]]
    if given.value("-f", "--file") in _STDIN and one.feed and one.feed.text:
        codes.append(one.feed.text)
    for code in codes:
        for effect in sed_scripts.effects(code):
            if effect.kind == "writes":
                if path_classes.of(ShellWord(effect.text), one.folder) in ("machine", "profile", "private", "device"):
                    yield Opaque("shell.writes-by-code", one.source, one.through)
            elif effect.text:
                yield ShellScript(effect.text, through, guess=True)
                yield Opaque(command_values.RULE, one.source, one.through)
            else:
                yield Opaque(command_values.RULE, one.source, one.through)


def _sqlite(one: SimpleCommand) -> Iterator[Inner]:
    texts = [*one.texts[1:], *((one.feed.text or "").splitlines() if one.feed else ())]
    for text in texts:
        found = re.match(r"\s*\.(?:shell|system)\s+(.*)|\s*\.(?:once|output)\s+\|(.*)|\s*\.(load)\s", text, re.DOTALL)
        if found:
            yield from command_values.inner(
                found[1] or found[2] or "load", frozenset(), one.source, (*one.through, one.program)
            )


def _database(one: SimpleCommand) -> Iterator[Inner]:
    """`\\!` and `\\o |` of database clients."""
    texts = [*one.texts[1:], *((one.feed.text or "").splitlines() if one.feed else ())]
    for text in texts:
        found = re.match(
            r"\s*(?:\\!|\\system|system\s)\s*(.*)|.*\\(?:o|g|copy\b.*program)\s*\|?\s*'?(.*)", text, re.DOTALL
        )
        if found and (found[1] or "|" in text or "program" in text.lower()):
            yield from command_values.inner(
                found[1] or found[2], command_values.PAGERS, one.source, (*one.through, one.program)
            )


def _ed(one: SimpleCommand) -> Iterator[Inner]:
    """`!command` as a line of `ed` or `ex`."""
    for line in (one.feed.text or "").splitlines() if one.feed else ():
        found = re.match(r"[\d,$.%]*\s*[rwe]?\s*!(.*)", line)
        if found:
            yield ShellScript(found[1], (*one.through, one.program), guess=True)


def _pager(one: SimpleCommand) -> Iterator[Inner]:
    for text in one.texts[1:]:
        found = re.match(r"\+\+?!(.*)", text, re.DOTALL)
        if found:
            yield from command_values.inner(found[1], frozenset(), one.source, (*one.through, one.program))


def _vim(one: SimpleCommand) -> Iterator[Inner]:
    """`:!command` and `%!command`."""
    given = options.split(one.words[1:], frozenset(("-c", "--cmd")))
    commands = [value for name, value in given.values if name in ("-c", "--cmd")]
    for text in (*commands, *(word.text[1:] for word in given.rest if word.text.startswith("+"))):
        found = re.match(r":?\s*(?:silent\s*)?[%\d,$.]*(?:r|w|read|write)?\s*!(.*)", text, re.DOTALL)
        if found:
            yield ShellScript(found[1], (*one.through, one.program), guess=True)


def _cargo(one: SimpleCommand) -> Iterator[Inner]:
    """`--config` with a setting that holds a program."""
    for name, value in options.split(one.words[1:], frozenset(("--config",))).values:
        found = re.match(
            r"(?:.*\.)?(?:runner|rustc-wrapper|rustc|linker|rustdoc|credential-provider)\s*=\s*(.*)", value, re.DOTALL
        )
        if name == "--config" and found:
            command = re.sub(r"[\[\]\"',]+", " ", found[1])
            yield from command_values.inner(command, _CARGO, one.source, (*one.through, "cargo"))


_CARGO = frozenset(
    "sccache clang gcc cc lld mold qemu-x86_64 qemu-aarch64 wasmtime wasm-bindgen-test-runner rust-lld".split()
)


def _service(one: SimpleCommand) -> Iterator[Inner]:
    given = options.split(one.words[1:], frozenset("--exec -x --startas -a --user -u --chuid -c --pidfile -p".split()))
    program = next((value for name, value in given.values if name in ("--exec", "-x", "--startas", "-a")), "")
    if program:
        yield one.inside((ShellWord(program), *given.rest))


def _capsh(one: SimpleCommand) -> Iterator[Inner]:
    texts = one.texts
    if "--" in texts:
        yield one.inside((ShellWord("bash"), *one.words[texts.index("--") + 1 :]))


def _coproc(one: SimpleCommand) -> Iterator[Inner]:
    words = tuple(word for word in one.words[1:] if word.text not in ("{", "}", "("))
    if words:
        yield one.inside(words)
    if len(words) > 1 and re.fullmatch(r"[A-Z_]\w*", words[0].text):
        yield one.inside(words[1:])


def _loader(one: SimpleCommand) -> Iterator[Inner]:
    """`ld-linux.so` runs the program it is given."""
    taking = frozenset("--preload --library-path --argv0 --audit --inhibit-rpath --glibc-hwcaps-prepend".split())
    words = options.split(one.words[1:], taking, stop=True).rest
    if words:
        yield one.inside(words)


def loader(program: str) -> Callable[[SimpleCommand], Iterator[Inner]] | None:
    return (
        _loader
        if re.fullmatch(r"ld(?:-linux|-musl|-uclibc)?(?:-[\w.-]+)?\.so(?:\.\d+)*|ld-\d[\d.]*\.so", program)
        else None
    )


def _go(one: SimpleCommand) -> Iterator[Inner]:
    """`-exec`, `-toolexec` and `-vettool`, which may have one dash or two."""
    texts = one.texts[1:]
    for at, text in enumerate(texts):
        found = re.fullmatch(r"--?(?:exec|toolexec|vettool)(?:=(.*))?", text, re.DOTALL)
        if found:
            value = found[1] if found[1] is not None else "".join(texts[at + 1 : at + 2])
            yield from command_values.inner(value, _GO, one.source, (*one.through, "go"))


_GO = frozenset("sudo wasmtime wasmer node go_js_wasm_exec go_wasip1_wasm_exec qemu-aarch64 qemu-arm garble".split())


def _loads(pattern: str, starts: str = "") -> Callable[[SimpleCommand], Iterator[Inner]]:
    """Programs with options that load code: a place where anybody may have put it is asked about.

    The option is the whole word, or its beginning; `starts` are options whose value is a command.
    """
    option = re.compile(pattern)
    command = re.compile(starts or r"(?!)", re.DOTALL)

    def found(one: SimpleCommand) -> Iterator[Inner]:
        texts = one.texts[1:]
        for at, text in enumerate(texts):
            loaded = option.match(text)
            value = (text[loaded.end() :] or "".join(texts[at + 1 : at + 2])) if loaded else ""
            if value and (
                path_classes.of(ShellWord(value)) in ("temp", "network") or re.match(r"data:|https?:|//", value)
            ):
                yield Opaque(command_values.RULE, one.source, one.through)
            starting = command.match(text)
            if starting:
                yield from command_values.inner(
                    text[starting.end() :], frozenset(), one.source, (*one.through, one.program)
                )

    return found


_COMPILER = _loads(r"-fplugin=|-B=?|-specs=|--config[= ]?", r"-wrapper[, ]?(?=.)")


def _compiler(one: SimpleCommand) -> Iterator[Inner]:
    yield from _COMPILER(one)
    if "-wrapper" in one.texts:
        yield Opaque(command_values.RULE, one.source, one.through)


def _mercurial(one: SimpleCommand) -> Iterator[Inner]:
    for name, value in options.split(one.words[1:], frozenset(("--config", "--ssh", "-e"))).values:
        setting = re.match(
            r"(?:alias|hooks|extensions|extdiff|merge-tools|ui\.(?:editor|ssh))[^=]*=(.*)", value, re.DOTALL
        )
        if name == "--config" and setting and setting[1]:
            yield from command_values.inner(
                setting[1], command_values.EDITORS | command_values.REMOTES, one.source, (*one.through, "hg")
            )
        elif name in ("--ssh", "-e"):
            yield from command_values.inner(value, command_values.REMOTES, one.source, (*one.through, "hg"))


def _ssh_library(one: SimpleCommand) -> Iterator[Inner]:
    """`ssh-keygen -D` and `ssh-add -s` load a library."""
    for name, value in options.split(one.words[1:], frozenset(("-D", "-s"))).values:
        ordinary = re.match(r"(?:/usr|/opt|/lib|/nix/store|/Library|/run/current-system)/", value)
        if name in ("-D", "-s") and "/" in value and not ordinary:
            yield Opaque(command_values.RULE, one.source, one.through)


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
    **dict.fromkeys(("java", "javaw"), _loads(r"-javaagent:|-agentpath:|-Xbootclasspath\S*?:", r"-XX:On\w+=")),
    **dict.fromkeys(("lua", "luajit"), _loads(r"-l")),
    **dict.fromkeys(("ssh-keygen", "ssh-add"), _ssh_library),
    "gradle": _loads(r"(?:-I|--init-script)=?"),
}
