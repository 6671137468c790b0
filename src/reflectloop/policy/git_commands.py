"""git's own way of reading words: what stands before the subcommand, and which of its commands overwrite files."""

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
# Options with a value that may be left out: it is one of these words, or it is no value.
_OPTIONAL = {"--recurse-submodules": ("checkout", "on-demand", "yes", "no"), "--track": ("direct", "inherit"), "-t": ()}
_PATHLIKE = (
    r"\.{1,2}$|\.{0,2}/|.*/$|:|.*[*?\[]"
    r"|.*\.(?:py|js|ts|tsx|jsx|rs|go|c|h|cpp|java|rb|php|md|txt|json|ya?ml|toml|sh|css|html)$"
)


def plain(one: SimpleCommand) -> SimpleCommand:
    """The same command without git's global options: `git -C x --no-pager reset` as `git reset`."""
    words = options.split(one.words[1:], _GLOBAL, stop=True).rest
    while words and words[0].text.startswith("-"):
        words = options.split(words, _GLOBAL, stop=True).rest
    return one._replace(words=(one.words[0], *words))


def overwrites(words: Sequence[ShellWord]) -> bool:
    """`git checkout` that takes files from somewhere, instead of changing the branch."""
    texts = [word.text for word in words]
    given = _arguments(words)
    if given.has(("-b", "-B", "--orphan", "--help", "-h")):
        return False
    if given.has(("-f", "--force", "--pathspec-from-file", "--ours", "--theirs", "-p", "--patch", "--overlay")):
        return True
    if "--" in texts:
        return texts.index("--") + 1 < len(texts)
    rest = [word.text for word in given.rest]
    return len(rest) > 1 or any(compiled(_PATHLIKE).match(text) for text in rest)


def switches_hard(words: Sequence[ShellWord]) -> bool:
    return _arguments(words).has(("-f", "--force", "--discard-changes"))


def _arguments(words: Sequence[ShellWord]) -> Arguments:
    kept, skip = [], False
    for at, word in enumerate(words):
        if skip:
            skip = False
            continue
        following = words[at + 1].text if at + 1 < len(words) else ""
        skip = following in _OPTIONAL.get(word.text, ())
        kept.append(word)
    return options.split(kept, _CHECKOUT)


def restores(words: Sequence[ShellWord]) -> bool:
    """`git restore` that writes files; with `--staged` alone it only writes the index."""
    given = options.split(words, frozenset(("-s", "--source", "-U", "--inter-hunk-context")))
    if given.has(("--help",)):
        return False
    return given.has(("-W", "--worktree")) or not given.has(("-S", "--staged"))


def cleans(words: Sequence[ShellWord], source: str) -> bool:
    """Say whether `git clean` removes anything; a dry run never does.

    `-nf` alone is asked about all the same: it is one letter away from the removal.
    """
    given = options.split(words, frozenset(("-e", "--exclude")))
    lax = "clean.requireforce=false" in source.lower()
    slip = [word.text for word in words] in (["-nf"], ["-fn"])
    return (lax or given.has(("-f", "--force"))) and (slip or not given.has(("-n", "--dry-run")))


def forces(words: Sequence[ShellWord]) -> bool:
    """`git push` that overwrites what is there, whoever wrote it."""
    given = options.split(words, frozenset(("-o", "--push-option", "--repo", "--receive-pack", "--exec")))
    forced = bool({"--force", "--forc", "-f"} & set(given.flags))
    return forced or given.has(("--mirror",)) or any(word.text.startswith("+") for word in given.rest[1:])


def deletes_remote(words: Sequence[ShellWord]) -> bool:
    given = options.split(words, frozenset(("-o", "--push-option", "--repo", "--receive-pack", "--exec")))
    gone = any(word.text.startswith(":") and len(word.text) > 1 for word in given.rest[1:])
    return gone or given.has(("--delete", "-d", "--prune"))


def deletes_branch(words: Sequence[ShellWord]) -> bool:
    given = options.split(words)
    return given.has(("-D",)) or (given.has(("-d", "--delete")) and given.has(("-f", "--force")))
