"""What a rule cannot say with words and options alone, by name. Pure."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable

from reflectloop.policy import (
    command_values,
    download_sources,
    git_commands,
    git_programs,
    options,
    path_classes,
    secret_keepers,
    uploads,
)
from reflectloop.policy.simple_command import SHELLS, ShellWord, SimpleCommand

_MODES = re.compile(r"[0-7]{2,3}[2367]|a\+rwx|[ugo]*[ao][ugo]*\+[rx]*w[rx]*|o\+\w*w\w*|\+s|[ug]\+s|0?[4267]7[0-7]{2}")
_LONGEST_MODE = 16
_WHOLE = frozenset(("machine", "home", "device"))
_REMOVERS = frozenset("rm rmdir unlink shred srm dd truncate mv".split())


def find_starts(one: SimpleCommand) -> list[str]:
    """What kinds of places a `find` begins at."""
    starts: list[str] = []
    for word in one.words[1:]:
        if word.text.startswith(("-", "(", "!")) and word.text not in ("-H", "-L", "-P"):
            break
        if not word.text.startswith("-"):
            starts.append(path_classes.of(word, one.folder))
    return starts or ["here"]


def _finds_whole(one: SimpleCommand) -> bool:
    removes = "-delete" in one.texts or bool({"-exec", "-execdir"} & set(one.texts) and _REMOVERS & set(one.texts))
    return removes and bool(_WHOLE & set(find_starts(one)))


def _opens_mode(one: SimpleCommand) -> bool:
    return any(_MODES.fullmatch(word.text[:_LONGEST_MODE]) for word in one.words[1:])


def _looks_like_removal(one: SimpleCommand) -> bool:
    """A program known only when it runs, with words that say what `rm -rf` says."""
    if len(one.words) < 2 or one.words[0].known:  # noqa: PLR2004 - a program and its words
        return False
    given = options.split(one.words[1:])
    where = [path_classes.of(word, one.folder) for word in given.rest]
    return given.has(("-r", "-R")) and given.has(("-f",)) and bool(_WHOLE & set(where))


def _kills_all(one: SimpleCommand) -> bool:
    texts = [text for text in one.texts[1:] if text != "--"]
    return (len(texts) > 1 and texts[-1] in ("-1", "1", "0")) or texts in (["-1"], ["1"])


def _moves_away(one: SimpleCommand) -> bool:
    """`mv` of a whole place, or into nothing."""
    rest = options.split(one.words[1:], frozenset(("-t", "-S"))).rest
    where = [path_classes.of(word, one.folder) for word in rest[:-1]]
    return bool(_WHOLE & set(where)) or (len(rest) > 1 and rest[-1].text == "/dev/null")


def _syncs_away(one: SimpleCommand) -> bool:
    """`rsync --delete` from an empty or temp folder onto something that counts is a removal by another name."""
    rest = options.split(one.words[1:], frozenset(("-e", "--rsh", "--exclude", "--include", "-f", "--filter"))).rest
    where = [path_classes.of(word, one.folder) for word in rest]
    remote = any(re.match(r"[^/]*:", word.text) for word in rest)
    if (
        not remote
        and len(rest) > 1
        and set(where) <= {"relative", "built"}
        and "--remove-source-files" not in one.texts
    ):
        return False
    return bool(rest) and where[-1] not in ("temp", "built")


def _formats(one: SimpleCommand) -> bool:
    """Whether a file system is made on a disk, or on what may be one; an image in a file harms nobody."""
    rest = options.split(one.words[1:], frozenset("-t -L -b -n -N -O -E -m -U -i -I -S -o".split())).rest
    names = [word for word in rest if not re.fullmatch(r"\d+[KMGT]?", word.text)]
    where = [path_classes.of(word, one.folder) for word in names]
    return bool({"device", "machine", "unknown"} & set(where)) or not where or any("/dev/" in w.text for w in names)


def _cuts(one: SimpleCommand) -> bool:
    """Whether `truncate` takes something away from a file."""
    size = options.split(one.words[1:], frozenset(("-s", "--size", "-r", "--reference"))).value("-s", "--size")
    return size is None or re.match(r"0+[A-Za-z]*$|[-</%]|\$", size) is not None


_TESTS = frozenset("-name -iname -path -ipath -wholename".split())
_LEFTOVERS = frozenset((".DS_Store", "Thumbs.db", "desktop.ini"))


def find_leaves(one: SimpleCommand) -> str:
    """Return the one name that a `find` below the current folder looks for, where only tools make such files."""
    texts = one.texts
    inside = set(find_starts(one)) <= {"here", "relative", "built", "temp"}
    if not inside or {"-o", "-or", "!", "-not"} & set(texts):
        return ""
    names = [following for text, following in itertools.pairwise(texts) if text in _TESTS]
    name = names[0].removeprefix("*/").removesuffix("/*") if names else "*"
    if any(mark in name for mark in "*?["):
        return ""
    return name if name in _LEFTOVERS or path_classes.of(ShellWord(name)) == "built" else ""


def _finds_to_delete(one: SimpleCommand) -> bool:
    return not find_leaves(one) and not (one.program.startswith("find") and "-empty" in one.texts)


_SENDERS = frozenset("curl wget nc ncat netcat scp rsync ftp socat telnet".split())


def _finds_to_send(one: SimpleCommand) -> bool:
    sends = bool({"-exec", "-execdir"} & set(one.texts) and _SENDERS & set(one.texts))
    return sends and bool(_WHOLE & set(find_starts(one)))


def _finds_to_write(one: SimpleCommand) -> bool:
    """`-fprintf` and its kin write a file."""
    writers = ("-fprintf", "-fprint", "-fprint0", "-fls")
    named = [following for text, following in itertools.pairwise(one.texts) if text in writers]
    return any(path_classes.of(ShellWord(name), one.folder) in _GUARDED for name in named)


_GUARDED = frozenset(("machine", "profile", "private", "device"))
_TAKING = frozenset("-m -o -g -S -t --mode --owner --group --suffix --target-directory -e -P -i -F -l".split())


def _puts(one: SimpleCommand) -> bool:
    """Whether a copy, a link or a download ends where logins, the system or git look for programs to run."""
    given = options.split(one.words[1:], _OUTPUT if one.program in ("curl", "wget") else _TAKING)
    if one.program in ("curl", "wget"):
        targets = [value for name, value in given.values if name in _OUTPUT]
        return any(path_classes.of(ShellWord(value), one.folder) in _GUARDED for value in targets)
    folder = given.value("-t", "--target-directory")
    sources = given.rest if folder else given.rest[:-1]
    if not folder and len(given.rest) < 2:  # noqa: PLR2004 - a source and a target
        return False
    target = folder or given.rest[-1].text
    names = [target]
    if path_classes.of(ShellWord(target), one.folder) == "home" or (target.endswith("/") and target[0] in "~/$."):
        names += [posixpath.join(target, posixpath.basename(word.text)) for word in sources]
    return any(path_classes.of(ShellWord(name), one.folder) in ("profile", "private") for name in names)


_OUTPUT = frozenset(("-o", "--output", "-O", "--output-document"))


_REQUEST_TAKING = frozenset(
    """
    -X --request -H --header -d --data --data-raw --data-binary --data-urlencode -o --output -w --write-out -u --user
    -b --cookie -c --cookie-jar -A --user-agent --method -m --max-time --retry --connect-timeout -F --form --json
    """.split()
)
_STORES = re.compile(
    r":9200(?:/?$|/_all|/\*)|:(?:2379|2375|2376|8500|6443|8200)(?:/|$)"
)  # that keep what others need too


def _asks_others(one: SimpleCommand) -> bool:
    """Whether a request goes to another machine, or to a store of this one."""
    rest = options.split(one.words[1:], _REQUEST_TAKING).rest
    addresses = [word.text for word in rest if word.text != "DELETE" and ("/" in word.text or ":" in word.text)]
    local = bool(addresses) and all(
        uploads.is_loopback(address) and not _STORES.search(address) for address in addresses
    )
    return one.program in ("gh", "grpcurl") or not local


def _is_local(address: str) -> bool:
    return (
        re.match(r"[a-z+]*:?/*(?:localhost|127\.|\[?::1|10\.|192\.168\.|0\.0\.0\.0|host\.docker)", address) is not None
    )


_ADDRESS = re.compile(
    r"(?:[\w.\[\],-]+\s*@\s*)?(?:git\+|hg\+|svn\+|https?://|git://|ssh://|git@|github:|gitlab:|bitbucket:|gist:)"
)
_REGISTRIES = re.compile(
    r"https?://(?:[\w.-]+\.)?(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|pytorch\.org|rubygems\.org|crates\.io)/"
)


def _installs_address(one: SimpleCommand) -> bool:
    """Whether what is installed or run comes from an address instead of a registry."""
    rest = options.split(one.words[1:], download_sources.TAKING).rest
    return any(
        _ADDRESS.match(word.text) and not _REGISTRIES.match(word.text) and not _is_local(word.text) for word in rest
    )


def _root_shell(one: SimpleCommand) -> bool:
    """Whether a shell of another user, root as a rule, waits for whatever comes."""
    taking = frozenset("-u -g -h -p -C -r -t -U --user --group --host -c --command".split())
    given = options.split(one.words[1:], taking, stop=True)
    rest = [posixpath.basename(word.text) for word in given.rest]
    if one.program == "su":
        return (
            not given.has(("-c", "--command", "-s", "--help"))
            and not any(text == "-c" for text in rest)
            and one.feed is None
        )
    if not rest:
        return given.has(("-i", "-s", "--login", "--shell")) or one.program == "run0"
    return len(rest) == 1 and rest[0] in SHELLS and one.feed is None


def _dns_words(one: SimpleCommand) -> bool:
    """Whether a name that is asked for is made of what another command prints."""
    return any(word.made_by and re.search(r"\$\(…\)\.|\$\{\w+\}\.\w", word.text) for word in one.words[1:])


def _wipes_log(one: SimpleCommand) -> bool:
    return any(
        redirect.operator in (">", ">|", "&>") and re.match(r"/var/log/(?!nginx/.*\.tmp)", redirect.target.text)
        for redirect in one.redirects
    ) and one.program in ("", ":", "true", "echo", "cat", "printf")


def _fills_disk(one: SimpleCommand) -> bool:
    """Whether a file grows until nothing is left."""
    endless = {"/dev/zero", "/dev/urandom", "/dev/random"}
    to_file = any(
        redirect.operator.startswith(">") and redirect.target.text not in ("/dev/null", "/dev/full")
        for redirect in one.redirects
    )
    if one.program == "dd":
        ends = any(text.startswith(("count=", "of=/dev/null")) for text in one.texts)
        return (
            not ends and any(f"if={name}" in one.texts for name in endless) and any("of=" in text for text in one.texts)
        )
    return to_file and (one.program == "yes" or (one.program == "cat" and bool(endless & set(one.texts))))


def _reads_private_input(one: SimpleCommand) -> bool:
    return any(
        redirect.operator == "<" and path_classes.of(redirect.target, one.folder) == "private"
        for redirect in one.redirects
    )


def _kills_what_runs(one: SimpleCommand) -> bool:
    """`ps … | xargs kill`, without anything that picks from the list."""
    made_by = set(one.feed.made_by if one.feed else ()) | {name for word in one.words[1:] for name in word.made_by}
    return (
        "ps" in made_by
        and not made_by & {"grep", "egrep", "rg", "pgrep", "head", "jq"}
        and "xargs" in (*one.through, "xargs")
    )


_KEYS = re.compile(
    r"(?i)id_(?:rsa|dsa|ecdsa|ed25519)|\.(?:pem|pfx|p12|kdbx?|keystore|jks|ppk|asc)\b|\.env\b|credentials|\.netrc|wallet\.dat"
    r"|secret|passw|private.key|wallet|\.key\b|\bid_\*|^\.(?:aws|ssh|gnupg)$|wp-config|api.?key|token|AKIA|shadow\b|\.ovpn"
)


def _searches_keys(one: SimpleCommand) -> bool:
    """Whether somebody looks for keys beyond the project."""
    words = [word for word in one.words[1:] if not word.text.startswith("-") or word.text.startswith("-name=")]
    if not any(_KEYS.search(word.text) for word in words):
        return False
    if one.program in ("locate", "plocate"):
        return True
    beyond = (word for word in words if word.text[:1] in "/~$" and not word.text.startswith(("/usr/", "/lib")))
    return any(path_classes.of(word, one.folder) in ("home", "machine") for word in beyond)


def _replaces(one: SimpleCommand) -> bool:
    """Whether the last word, or the target of `dd` and `tee`, is a program or a library of the system."""
    if one.program in ("tee", "dd"):
        return True
    rest = options.split(one.words[1:], _TAKING).rest
    system = re.compile(r"/(?:usr/)?(?:s?bin|lib(?:32|64|exec)?)/|/etc/alternatives/")
    links = one.program == "ln" and len(rest) > 1 and system.match(rest[0].text)
    return len(rest) > 1 and not links and system.match(rest[-1].text) is not None


def _becomes_root(one: SimpleCommand) -> bool:
    """Whether `su -c` runs a command as root."""
    given = options.split(
        one.words[1:], frozenset(("-c", "--command", "-s", "--shell", "-g", "-G", "--session-command"))
    )
    users = [word.text for word in given.rest if word.text != "-"]
    return given.value("-c", "--command", "--session-command") is not None and users[:1] in ([], ["root"])


def _edits_profile(one: SimpleCommand) -> bool:
    """Whether a program that writes without a redirection writes where something runs by itself."""
    names = [
        re.sub(r"^of=", "", word.text) for word in one.words[1:] if one.program != "dd" or word.text.startswith("of=")
    ]
    return any(path_classes.of(ShellWord(name), one.folder) == "profile" for name in names)


_OWN_HOOKS = re.compile(r"(?:\./)?\.?(?:git-?)?hooks/?|\.husky(?:/_)?/?")


def _git_config_runs(one: SimpleCommand) -> bool:
    """Whether a setting holds a command that is not one of the ordinary ones."""
    rest = [word.text for word in options.split(one.words[2:], frozenset(("-f", "--file", "--blob", "--type"))).rest]
    key, *values = rest[1:] if rest[:1] == ["set"] else rest or [""]
    if not values:
        return False
    if key.lower().startswith("alias."):
        return values[0].startswith("!")
    allowed = git_programs.helper(key)
    if allowed is None or (key.lower() == "core.hookspath" and _OWN_HOOKS.fullmatch(values[0])):
        return False
    return not command_values.ordinary(values[0], allowed)


def _pushes_elsewhere(one: SimpleCommand) -> bool:
    rest = options.split(one.words[2:]).rest
    return bool(rest) and rest[0].text not in ("origin", "upstream")


def _pushes_to_stranger(one: SimpleCommand) -> bool:
    """Whether `git push` is given an address that is on no well-known forge."""
    rest = options.split(one.words[2:], frozenset(("-o", "--push-option"))).rest
    address = rest[0].text if rest else ""
    return re.match(r"(?:https?|git|ssh)://[^$]|[\w.-]+@[\w.-]+:", address) is not None and not _FORGES.match(
        f"url.{address}"
    )


def _installs_short(one: SimpleCommand) -> bool:
    """Whether the package that is installed, or the program that is run, is named `owner/repository`."""
    rest = options.split(one.words[1:], download_sources.TAKING | {"-p", "--package", "-w", "--workspace"}).rest
    if one.program in ("npx", "bunx", "pnpx"):
        named = rest[:1]
    else:
        starts = rest and rest[0].text in ("dlx", "x", "exec")  # the words behind the program are its own
        named = rest[1:2] if starts else rest[1:] if rest and rest[0].text in ("install", "i", "add") else ()
    return any(re.fullmatch(r"[A-Za-z0-9][\w-]*/[\w.-]+(?:#[\w./-]+)?", word.text) for word in named)


def _mounts_over(one: SimpleCommand) -> bool:
    """Whether something is put over, or taken away from, a place of the system or a home."""
    given = options.split(one.words[1:], frozenset("-t --types -o --options -L -U --source --target".split()))
    if one.program == "umount":
        return any(path_classes.of(word, one.folder) in _WHOLE for word in given.rest) or given.has(
            ("-R", "--recursive")
        )
    target = given.value("--target") or (given.rest[-1].text if len(given.rest) > 1 else "")
    return bool(target) and path_classes.of(ShellWord(target), one.folder) in ("machine", "home", "profile", "private")


_MANAGERS = frozenset("pip pip3 uv npm pnpm gem cargo conda pipx brew apt dpkg".split())


def _removes_listed(one: SimpleCommand) -> bool:
    """Whether every package is removed: those that the package manager itself lists."""
    listed = {name for word in one.words[1:] for name in word.made_by}
    listed |= set(one.feed.made_by) if one.feed and "xargs" in one.through else set()
    return bool(listed & _MANAGERS) and not listed & {"grep", "egrep", "rg", "head", "awk", "jq", "fzf"}


def _takes_name(one: SimpleCommand) -> bool:
    """Whether a file out of a temp folder becomes a program."""
    rest = options.split(one.words[1:], _TAKING).rest
    programs = re.compile(r"(?:/usr/local/s?bin|(?:~|\$\{?HOME\}?|/home/[^/]+|/root)/(?:\.local/)?bin)(?:/|$)")
    return (
        len(rest) > 1
        and programs.match(rest[-1].text) is not None
        and any(re.match(r"/(?:tmp|var/tmp|dev/shm)/", word.text) for word in rest[:-1])
    )


def _unpacks_home(one: SimpleCommand) -> bool:
    taking = frozenset(("-C", "--directory", "-d", "-D"))
    given = options.split(one.words[1:], taking)
    packs = one.program.endswith("tar") and re.match(r"-?\w*[cru]", one.texts[1]) is not None
    targets = [value for name, value in given.values if name in taking]
    system = re.compile(r"/(?:etc|bin|sbin|boot|lib\w*|usr|usr/s?bin|usr/lib)?/?$")
    return not packs and any(
        path_classes.of(ShellWord(value), one.folder) == "home" or system.match(value) for value in targets
    )


def _finds_to_remove_all(one: SimpleCommand) -> bool:
    """Whether `find -exec rm` removes whatever there is: nothing picks by name, age or size."""
    texts = set(one.texts)
    picks = {
        text
        for text in texts
        if re.match(r"-i?(?:name|path|wholename|regex)|-[cma](?:time|min)|-newer|-size|-empty", text)
    }
    removes = bool({"-exec", "-execdir"} & texts) and bool({"rm", "unlink", "/bin/rm"} & texts)
    return removes and not picks and bool({"here", "relative", "above"} & set(find_starts(one)))


def _serves_home(one: SimpleCommand) -> bool:
    if one.program == "php" and "-S" not in one.texts:
        return False
    named = [word for word in one.words[1:] if word.text[:1] in ("/", "~", "$")]
    return any(path_classes.of(word, one.folder) in ("home", "machine") for word in named)


_USUAL_SOURCES = re.compile(
    r"ppa:(?:deadsnakes|ubuntu-toolchain-r|git-core|neovim-ppa)/|https://\S*(?:flathub\.org|docker\.com|microsoft\.com)"
)


def _package_source(one: SimpleCommand) -> bool:
    """Whether the system is told to take packages from an address, or to trust a key."""
    texts = one.texts[1:]
    if any(_USUAL_SOURCES.match(text) for text in texts):
        return False
    if one.program in ("apt-key", "pacman-key", "add-apt-repository", "apt-add-repository"):
        return True
    return any(re.match(r"(?:--[\w-]+=)?https?://", text) or text in ("--dangerous", "--devmode") for text in texts)


_FORGES = re.compile(
    r"(?i)url\.(?:https?://|ssh://|git://|git@)?(?:[^/@]*@)?(?:[\w-]+\.)*(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|googlesource\.com"
    r"|dev\.azure\.com|localhost)"
)


def _trusts_elsewhere(one: SimpleCommand) -> bool:
    """Whether `git config url.….insteadOf` sends requests to a host that is no forge."""
    keys = [text for text in one.texts[2:] if re.match(r"(?i)url\..*\.(?:push)?insteadof$", text)]
    return any(not _FORGES.match(key) and "://" in key for key in keys)


CHECKS: dict[str, Callable[[SimpleCommand], bool]] = {
    "asks-others": _asks_others,
    "copies-home-away": uploads.of_home,
    "cuts": _cuts,
    "edits-profile": _edits_profile,
    "dns-words": _dns_words,
    "fills-disk": _fills_disk,
    "find-delete": _finds_to_delete,
    "find-sends": _finds_to_send,
    "find-whole": _finds_whole,
    "find-writes": _finds_to_write,
    "formats": _formats,
    "git-config-runs": _git_config_runs,
    "git-branch-delete": lambda one: git_commands.deletes_branch(one.words[2:]),
    "git-checkout-overwrite": lambda one: git_commands.overwrites(one.words[2:]),
    "git-clean": lambda one: git_commands.cleans(one.words[2:], one.source),
    "git-push-delete": lambda one: git_commands.deletes_remote(one.words[2:]),
    "git-push-force": lambda one: git_commands.forces(one.words[2:]),
    "git-restore": lambda one: git_commands.restores(one.words[2:]),
    "git-switch-force": lambda one: git_commands.switches_hard(one.words[2:]),
    "installs-address": _installs_address,
    "kill-all": _kills_all,
    "kill-listed": _kills_what_runs,
    "moves-away": _moves_away,
    "opens-mode": _opens_mode,
    "puts": _puts,
    "becomes-root": _becomes_root,
    "installs-short": _installs_short,
    "pushes-elsewhere": _pushes_elsewhere,
    "replaces": _replaces,
    "searches-keys": _searches_keys,
    "reads-private-input": _reads_private_input,
    "root-shell": _root_shell,
    "sends-private": uploads.of_private,
    "syncs-away": _syncs_away,
    "plain-http": download_sources.of_plain_http,
    "deploys-address": download_sources.of_deployment,
    "go-settings": download_sources.of_settings,
    "keeps-secret": secret_keepers.keeps,
    "mounts-over": _mounts_over,
    "removes-listed": _removes_listed,
    "takes-name": _takes_name,
    "pushes-to-stranger": _pushes_to_stranger,
    "find-removes-all": _finds_to_remove_all,
    "package-source": _package_source,
    "serves-home": _serves_home,
    "unpacks-home": _unpacks_home,
    "trusts-elsewhere": _trusts_elsewhere,
    "unknown-removal": _looks_like_removal,
    "unproven-source": download_sources.of_packages,
    "wipes-log": _wipes_log,
}
