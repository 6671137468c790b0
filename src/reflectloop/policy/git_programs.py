"""Find the programs that git starts: those in its settings, transports, pagers, and commands of its subcommands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflectloop.policy import command_values, git_commands, options
from reflectloop.policy.simple_command import Inner, Opaque, ShellScript, SimpleCommand
from reflectloop.system import patterns

# Settings that contain a command, and the ordinary programs for each.
_SETTINGS: tuple[tuple[str, frozenset[str]], ...] = (
    (r"core\.pager|pager\..+|interactive\.difffilter", command_values.PAGERS | command_values.DIFFERS),
    (r"core\.editor|sequence\.editor", command_values.EDITORS),
    (r"core\.sshcommand", command_values.REMOTES),
    (r"core\.askpass", command_values.ASKERS),
    (r"core\.(?:gitproxy|fsmonitor)", command_values.PROXIES | {"true", "false"}),
    (r"diff\.external|diff\..+\.(?:command|textconv)|difftool\..+\.(?:cmd|path)", command_values.DIFFERS),
    (r"merge\..+\.driver|mergetool\..+\.(?:cmd|path)", command_values.DIFFERS),
    (r"filter\..+\.(?:clean|smudge|process)", frozenset(("git-lfs", "cat", "git-crypt"))),
    (r"gpg\.(?:.+\.)?program", frozenset(("gpg", "gpg2", "ssh-keygen", "gpgsm", "op-ssh-sign"))),
    (r"(?:web\.browser|browser\..+\.cmd|man\..+\.cmd)", command_values.BROWSERS),
    (
        r"remote\..+\.(?:uploadpack|receivepack|vcs)|uploadpack\.packobjectshook|trailer\..+\.(?:command|cmd)",
        frozenset(),
    ),
    (r"credential\.(?:.+\.)?helper", command_values.HELPERS),
    (r"core\.hookspath|init\.templatedir|include(?:if\..+)?\.path", frozenset(("/dev/null",))),
    (r"sendemail\..+cmd|core\.alternaterefscommand", frozenset()),
)
_PROTOCOL = patterns.lazy(r"(?i)protocol\.(?:ext\.)?allow=(?:always|user)|url\..+\.insteadof=|url\.ext::.*")
_TRANSPORT = patterns.lazy(r"(?:--\w+=)?(?:ext|fd)::")
_PACK = frozenset(("--upload-pack", "-u", "--receive-pack", "--exec"))
_PACKERS = frozenset(("git-upload-pack", "git-receive-pack", "git"))
_MAILERS = frozenset(("sendmail", "msmtp"))
_FILTERS = ("-x", "--exec", "--tree-filter", "--index-filter", "--msg-filter", "--env-filter", "--commit-filter")


def ordinary_programs(key: str) -> frozenset[str] | None:
    """Return the ordinary programs for the value of a setting; None if the setting does not contain a command."""
    return next((allowed for pattern, allowed in _SETTINGS if re.fullmatch(pattern, key.lower()[:200])), None)


def inner_commands(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the commands that git starts: aliases, programs in settings, `rebase -x`, `bisect run` and similar."""
    texts, through = command.texts, (*command.through, "git")
    plain = git_commands.without_global_options(command)
    sub = plain.texts[1] if len(plain.texts) > 1 else ""
    for at, text in enumerate(texts[1:], 1):
        following = texts[at + 1] if at + 1 < len(texts) else ""
        if text in ("-c", "--config") or re.match(r"-c\w+\.|--config=", text):
            yield from _setting(
                command, following if text in ("-c", "--config") else re.sub(r"^-c|^--config=", "", text)
            )
        elif text in _FILTERS and following:
            yield ShellScript(following, through, guess=True)
        elif text.startswith(("--exec=", "!")) or (text.startswith("--") and "-filter=" in text):
            yield ShellScript(text.partition("=")[2] or text[1:], through, guess=True)
        if _TRANSPORT.match(text):
            yield Opaque(command_values.RULE, command.source, command.through)
    yield from _by_subcommand(command, plain, sub)


def _setting(command: SimpleCommand, setting: str) -> Iterator[Inner]:
    key, _, value = setting.partition("=")
    through = (*command.through, "git")
    if key.lower().startswith("alias.") and value.startswith("!"):
        yield ShellScript(value[1:], through, guess=True)
    elif _PROTOCOL.fullmatch(setting) or (_PROTOCOL.match(setting) and "ext::" in setting):
        yield Opaque(command_values.RULE, command.source, command.through)
    if _UNPROVEN.fullmatch(setting):
        yield Opaque("git.unproven-server", command.source, command.through)
    allowed = ordinary_programs(key)
    if allowed is not None:
        yield from command_values.inner_commands(value, allowed, command.source, through)


_UNPROVEN = patterns.lazy(r"(?i)http\.(?:\S+\.)?(?:sslverify=(?:false|0|no|off)|proxy=\S+)")


def _by_subcommand(command: SimpleCommand, plain: SimpleCommand, sub: str) -> Iterator[Inner]:
    through = (*command.through, "git")
    if plain.texts[1:3] in (["bisect", "run"], ["submodule", "foreach"]):
        words = options.split(plain.words[3:], stop=True).rest
        if words:
            yield ShellScript(words[0].text, through) if len(words) == 1 else command.inside(words)
    flags, allowed = _OPTIONS.get(sub, (frozenset[str](), frozenset[str]()))
    for name, value in options.split(plain.words[2:], flags).values:
        if name in flags:
            yield from command_values.inner_commands(value, allowed, command.source, through)
    if sub and any(text.startswith("--exec-path=") for text in command.texts):
        yield Opaque(command_values.RULE, command.source, command.through)


# By subcommand: the options whose value is a command, and the ordinary programs for them.
_OPTIONS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(("clone", "fetch", "pull", "ls-remote", "archive", "fetch-pack", "send-pack"), (_PACK, _PACKERS)),
    "push": (_PACK - {"-u"}, _PACKERS),
    "difftool": (frozenset(("-x", "--extcmd")), command_values.DIFFERS),
    "send-email": (frozenset("--sendmail-cmd --to-cmd --cc-cmd --header-cmd".split()), _MAILERS),
    "grep": (frozenset(("-O", "--open-files-in-pager")), command_values.PAGERS | command_values.EDITORS),
}
