"""Read git's arguments: global options before the subcommand, and which subcommands overwrite or delete."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.policy import options
from reflectloop.policy.options import Arguments
from reflectloop.policy.rule import compiled
from reflectloop.policy.simple_command import ShellWord, SimpleCommand

_GLOBAL = frozenset(
    "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source --list-cmds".split()
)
_CHECKOUT = frozenset(
    """
    -b -B -c -C --create --force-create --orphan --conflict --pathspec-from-file -U --unified --inter-hunk-context
    """.split()
)
# Options with an optional value: the next word is the value only if it is one of these.
_OPTIONAL = {"--recurse-submodules": ("checkout", "on-demand", "yes", "no"), "--track": ("direct", "inherit"), "-t": ()}
_PATHLIKE = (
    r"\.{1,2}$|\.{0,2}/|.*/$|:|.*[*?\[]"
    r"|.*\.(?:py|js|ts|tsx|jsx|rs|go|c|h|cpp|java|rb|php|md|txt|json|ya?ml|toml|sh|css|html)$"
)


def without_global_options(command: SimpleCommand) -> SimpleCommand:
    """Return the command without git's global options: `git -C x --no-pager reset` as `git reset`."""
    words = options.split(command.words[1:], _GLOBAL, stop=True).rest
    while words and words[0].text.startswith("-"):
        words = options.split(words, _GLOBAL, stop=True).rest
    return command._replace(words=(command.words[0], *words))


def checkout_overwrites(words: Sequence[ShellWord]) -> bool:
    """Return True if `git checkout` overwrites files instead of changing the branch."""
    texts = [word.text for word in words]
    args = _arguments(words)
    if args.has(("-b", "-B", "--orphan", "--help", "-h")):
        return False
    if args.has(("-f", "--force", "--pathspec-from-file", "--ours", "--theirs", "-p", "--patch", "--overlay")):
        return True
    if "--" in texts:
        return texts.index("--") + 1 < len(texts)
    rest = [word.text for word in args.rest]
    return len(rest) > 1 or any(compiled(_PATHLIKE).match(text) for text in rest)


def switches_by_force(words: Sequence[ShellWord]) -> bool:
    return _arguments(words).has(("-f", "--force", "--discard-changes"))


def _arguments(words: Sequence[ShellWord]) -> Arguments:
    rest, skip = [], False
    for at, word in enumerate(words):
        if skip:
            skip = False
            continue
        following = words[at + 1].text if at + 1 < len(words) else ""
        skip = following in _OPTIONAL.get(word.text, ())
        rest.append(word)
    return options.split(rest, _CHECKOUT)


def restores_files(words: Sequence[ShellWord]) -> bool:
    """Return True if `git restore` writes files; with `--staged` alone it only writes the index."""
    args = options.split(words, frozenset(("-s", "--source", "-U", "--inter-hunk-context")))
    if args.has(("--help",)):
        return False
    return args.has(("-W", "--worktree")) or not args.has(("-S", "--staged"))


def cleans_files(words: Sequence[ShellWord], source: str) -> bool:
    """Return True if `git clean` removes anything; a dry run does not.

    `-nf` alone needs confirmation all the same, because it is one letter away from the removal.
    """
    args = options.split(words, frozenset(("-e", "--exclude")))
    no_force_needed = "clean.requireforce=false" in source.lower()
    ambiguous = [word.text for word in words] in (["-nf"], ["-fn"])
    return (no_force_needed or args.has(("-f", "--force"))) and (ambiguous or not args.has(("-n", "--dry-run")))


def pushes_by_force(words: Sequence[ShellWord]) -> bool:
    """Return True if `git push` overwrites the remote branch, whoever wrote it."""
    args = options.split(words, frozenset(("-o", "--push-option", "--repo", "--receive-pack", "--exec")))
    forced = bool({"--force", "--forc", "-f"} & set(args.flags))
    return forced or args.has(("--mirror",)) or any(word.text.startswith("+") for word in args.rest[1:])


def deletes_remote(words: Sequence[ShellWord]) -> bool:
    args = options.split(words, frozenset(("-o", "--push-option", "--repo", "--receive-pack", "--exec")))
    empty_source = any(word.text.startswith(":") and len(word.text) > 1 for word in args.rest[1:])
    return empty_source or args.has(("--delete", "-d", "--prune"))


def deletes_branch(words: Sequence[ShellWord]) -> bool:
    args = options.split(words)
    return args.has(("-D",)) or (args.has(("-d", "--delete")) and args.has(("-f", "--force")))
