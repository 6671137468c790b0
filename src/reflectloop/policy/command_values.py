"""Judge values that another program uses as a command: ordinary helpers pass, anything else needs confirmation.

Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from reflectloop.policy.simple_command import Inner, Opaque, ShellScript
from reflectloop.system import patterns

RULE = "shell.started-by-option"
PAGERS = frozenset("less more cat most bat batcat delta diff-so-fancy pg moar ov true false : tee head col".split())
EDITORS = frozenset(
    "vim vi nvim nano pico emacs emacsclient code codium subl micro hx helix ed ex joe mcedit kak gedit kate zed cursor"
    " notepad true : cat touch open sed mate idea pycharm".split()
)
REMOTES = frozenset("ssh autossh rsh mosh plink tsh assh sshpass ssh.exe".split())
PROXIES = REMOTES | frozenset(
    "nc ncat netcat corkscrew connect cloudflared aws gcloud none socat tsh sft sft.exe".split()
)
PACKERS = frozenset(
    "zstd zstdmt pigz gzip bzip2 pbzip2 lbzip2 xz pixz pxz lz4 lzop lzip plzip brotli lrzip 7z compress unzstd unpigz"
    " igzip rapidgzip zst".split()
)
ASKERS = frozenset("true echo ssh-askpass ksshaskpass gnome-ssh-askpass x11-ssh-askpass false".split())
BROWSERS = frozenset(
    "none open xdg-open firefox chromium google-chrome chrome safari w3m lynx links wslview true echo : cat".split()
)
DIFFERS = frozenset("difft diff colordiff delta icdiff meld vimdiff nvim kdiff3 diff-so-fancy true cat".split())
SHELL_NAMES = frozenset("sh bash zsh dash ksh fish ash".split())
HELPERS = frozenset("store cache osxkeychain manager manager-core libsecret wincred gh gcm".split())
_SHELL_SYNTAX = patterns.lazy(r"[;|&<>`\n]|\$\(")
_STANDARD = patterns.lazy(r"(?:/usr)?(?:/local)?/s?bin/[^/]+$|/opt/homebrew/bin/[^/]+$")


def ordinary(value: str, allowed: frozenset[str]) -> bool:
    """Return True if a value names one of the allowed programs and nothing else."""
    parts = value.split()
    if not parts:
        return True
    program = parts[0]
    if parts[0] in ("env", "command", "exec") and len(parts) > 1:
        program = parts[1]
    place = "/" not in program or _STANDARD.match(program)
    return bool(place) and posixpath.basename(program) in allowed and not _SHELL_SYNTAX.search(value)


def inner_commands(value: str, allowed: frozenset[str], source: str, through: tuple[str, ...]) -> Iterator[Inner]:
    """Yield what starts if a program uses this value as a command."""
    if value.strip():
        yield ShellScript(value.removeprefix("!"), through, guess=True)
    if not ordinary(value, allowed):
        yield Opaque(RULE, source, through[:-1])
