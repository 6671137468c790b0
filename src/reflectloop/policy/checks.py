"""Checks that rules refer to by name, for conditions that words and options alone cannot express. Pure."""

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
from reflectloop.system import patterns

_MODES = patterns.lazy(
    r"[0-7]{2,3}[2367]|a\+rwx|[ugo]*[ao][ugo]*\+[rx]*w[rx]*|o\+\w*w\w*|\+s|[ug]\+s|0?[4267]7[0-7]{2}"
)
_LONGEST_MODE = 16
_WHOLE_PLACES = frozenset(("machine", "home", "device"))
_REMOVERS = frozenset("rm rmdir unlink shred srm dd truncate mv".split())
_CHANGERS = _REMOVERS | {"chmod", "chown", "chgrp", "chattr", "setfacl", "tee"}
WHOLE = "(whole machine or home)"  # in `made_by`: names of files that a `find` over all of them prints


def _start_words(command: SimpleCommand) -> list[ShellWord]:
    """Return the paths that a `find` starts at."""
    starts: list[ShellWord] = []
    for word in command.words[1:]:
        if word.text.startswith(("-", "(", "!")) and word.text not in ("-H", "-L", "-P"):
            break
        if not word.text.startswith("-"):
            starts.append(word)
    return starts


def find_starts(command: SimpleCommand) -> list[str]:
    """Return the classes of the paths that a `find` starts at."""
    return [path_classes.path_class(word, command.folder) for word in _start_words(command)] or ["here"]


def whole_starts(command: SimpleCommand) -> list[str]:
    """Return the paths that a `find` starts at, or that another command names, which are a whole machine or home."""
    starts = _start_words(command) if command.program.endswith("find") else command.words[1:]
    return [word.text for word in starts if path_classes.path_class(word, command.folder) in _WHOLE_PLACES]


def _changes_whole(command: SimpleCommand) -> bool:
    """Return True if `xargs` removes or changes what a `find` over a whole machine or home folder prints."""
    return bool(command.feed and WHOLE in command.feed.made_by and _CHANGERS & set(command.texts))


def _finds_to_remove_whole(command: SimpleCommand) -> bool:
    removes = "-delete" in command.texts or bool(
        {"-exec", "-execdir"} & set(command.texts) and _REMOVERS & set(command.texts)
    )
    return removes and bool(_WHOLE_PLACES & set(find_starts(command)))


def _opens_mode(command: SimpleCommand) -> bool:
    return any(_MODES.fullmatch(word.text[:_LONGEST_MODE]) for word in command.words[1:])


def _looks_like_removal(command: SimpleCommand) -> bool:
    """Return True if a program that is known only at run time gets the arguments of `rm -rf` on a whole place."""
    if len(command.words) < 2 or command.words[0].known:  # noqa: PLR2004 - a program and its words
        return False
    args = options.split(command.words[1:])
    where = [path_classes.path_class(word, command.folder) for word in args.rest]
    return args.has(("-r", "-R")) and args.has(("-f",)) and bool(_WHOLE_PLACES & set(where))


def _kills_all(command: SimpleCommand) -> bool:
    texts = [text for text in command.texts[1:] if text != "--"]
    return (len(texts) > 1 and texts[-1] in ("-1", "1", "0")) or texts in (["-1"], ["1"])


def _moves_away(command: SimpleCommand) -> bool:
    """Return True if `mv` moves a whole place, or moves something to /dev/null."""
    rest = options.split(command.words[1:], frozenset(("-t", "-S"))).rest
    where = [path_classes.path_class(word, command.folder) for word in rest[:-1]]
    return bool(_WHOLE_PLACES & set(where)) or (len(rest) > 1 and rest[-1].text == "/dev/null")


def _syncs_away(command: SimpleCommand) -> bool:
    """Return True if `rsync --delete` from an empty or temp folder would remove something that matters."""
    rest = options.split(command.words[1:], frozenset(("-e", "--rsh", "--exclude", "--include", "-f", "--filter"))).rest
    where = [path_classes.path_class(word, command.folder) for word in rest]
    remote = any(re.match(r"[^/]*:", word.text) for word in rest)
    if (
        not remote
        and len(rest) > 1
        and set(where) <= {"relative", "built"}
        and "--remove-source-files" not in command.texts
    ):
        return False
    return bool(rest) and where[-1] not in ("temp", "built")


def _formats(command: SimpleCommand) -> bool:
    """Return True if a file system is made on a disk, or on what may be one. An image in a file is harmless."""
    rest = options.split(command.words[1:], frozenset("-t -L -b -n -N -O -E -m -U -i -I -S -o".split())).rest
    names = [word for word in rest if not re.fullmatch(r"\d+[KMGT]?", word.text)]
    where = [path_classes.path_class(word, command.folder) for word in names]
    return bool({"device", "machine", "unknown"} & set(where)) or not where or any("/dev/" in w.text for w in names)


def _cuts(command: SimpleCommand) -> bool:
    """Return True if `truncate` removes content from a file."""
    size = options.split(command.words[1:], frozenset(("-s", "--size", "-r", "--reference"))).value("-s", "--size")
    return size is None or re.match(r"0+[A-Za-z]*$|[-</%]|\$", size) is not None


_TESTS = frozenset("-name -iname -path -ipath -wholename".split())
_LEFTOVERS = frozenset((".DS_Store", "Thumbs.db", "desktop.ini"))


def find_leaves(command: SimpleCommand) -> str:
    """Return the name that a `find` below the current folder matches, if only tools make such files; else empty."""
    texts = command.texts
    inside = set(find_starts(command)) <= {"here", "relative", "built", "temp"}
    if not inside or {"-o", "-or", "!", "-not"} & set(texts):
        return ""
    names = [following for text, following in itertools.pairwise(texts) if text in _TESTS]
    name = names[0].removeprefix("*/").removesuffix("/*") if names else "*"
    if any(mark in name for mark in "*?["):
        return ""
    return name if name in _LEFTOVERS or path_classes.path_class(ShellWord(name)) == "built" else ""


def _finds_to_delete(command: SimpleCommand) -> bool:
    return not find_leaves(command) and not (command.program.startswith("find") and "-empty" in command.texts)


_SENDERS = frozenset("curl wget nc ncat netcat scp rsync ftp socat telnet".split())


def _finds_to_send(command: SimpleCommand) -> bool:
    sends = bool({"-exec", "-execdir"} & set(command.texts) and _SENDERS & set(command.texts))
    return sends and bool(_WHOLE_PLACES & set(find_starts(command)))


def _finds_to_write(command: SimpleCommand) -> bool:
    """Return True if `-fprintf` or a similar action of `find` writes to a guarded place."""
    writers = ("-fprintf", "-fprint", "-fprint0", "-fls")
    named = [following for text, following in itertools.pairwise(command.texts) if text in writers]
    return any(path_classes.path_class(ShellWord(name), command.folder) in _GUARDED_PLACES for name in named)


def _reads_jobs(command: SimpleCommand) -> bool:
    """Return True if `crontab` gets a file, or standard input."""
    files = options.split(command.words[1:], frozenset(("-u",))).rest
    return bool(files or command.feed is not None or any(redirect.operator == "<" for redirect in command.redirects))


def _git_output_is_guarded(command: SimpleCommand) -> bool:
    """Return True if `git log --output=FILE` or `git format-patch -o FOLDER` writes to a guarded place."""
    flags = frozenset(("--output", "--output-directory", "-o"))
    values = options.split(command.words[2:], flags).values
    return any(
        name in flags and path_classes.path_class(ShellWord(value), command.folder) in _GUARDED_PLACES
        for name, value in values
    )


_GUARDED_PLACES = frozenset(("machine", "profile", "private", "device"))
_TAKING = frozenset("-m -o -g -S -t --mode --owner --group --suffix --target-directory -e -P -i -F -l".split())


def _puts(command: SimpleCommand) -> bool:
    """Return True if a copy, link or download ends where logins, the system or git look for programs to run."""
    args = options.split(command.words[1:], _OUTPUT if command.program in ("curl", "wget") else _TAKING)
    if command.program in ("curl", "wget"):
        targets = [value for name, value in args.values if name in _OUTPUT]
        return any(path_classes.path_class(ShellWord(value), command.folder) in _GUARDED_PLACES for value in targets)
    folder = args.value("-t", "--target-directory")
    sources = args.rest if folder else args.rest[:-1]
    if not folder and len(args.rest) < 2:  # noqa: PLR2004 - a source and a target
        return False
    target = folder or args.rest[-1].text
    names = [target]
    if path_classes.path_class(ShellWord(target), command.folder) == "home" or (
        target.endswith("/") and target[0] in "~/$."
    ):
        names += [posixpath.join(target, posixpath.basename(word.text)) for word in sources]
    return any(path_classes.path_class(ShellWord(name), command.folder) in ("profile", "private") for name in names)


_OUTPUT = frozenset(("-o", "--output", "-O", "--output-document"))


_REQUEST_TAKING = frozenset(
    """
    -X --request -H --header -d --data --data-raw --data-binary --data-urlencode -o --output -w --write-out -u --user
    -b --cookie -c --cookie-jar -A --user-agent --method -m --max-time --retry --connect-timeout -F --form --json
    """.split()
)
_STORES = patterns.lazy(
    r":9200(?:/?$|/_all|/\*)|:(?:2379|2375|2376|8500|6443|8200)(?:/|$)"
)  # ports of data stores that others use too


def _asks_others(command: SimpleCommand) -> bool:
    """Return True if a request goes to another machine, or to a data store on this one."""
    rest = options.split(command.words[1:], _REQUEST_TAKING).rest
    addresses = [word.text for word in rest if word.text != "DELETE" and ("/" in word.text or ":" in word.text)]
    local = bool(addresses) and all(
        uploads.is_loopback(address) and not _STORES.search(address) for address in addresses
    )
    return command.program in ("gh", "grpcurl") or not local


def _is_local(address: str) -> bool:
    return (
        re.match(r"[a-z+]*:?/*(?:localhost|127\.|\[?::1|10\.|192\.168\.|0\.0\.0\.0|host\.docker)", address) is not None
    )


_ADDRESS = patterns.lazy(
    r"(?:[\w.\[\],-]+\s*@\s*)?(?:git\+|hg\+|svn\+|https?://|git://|ssh://|git@|github:|gitlab:|bitbucket:|gist:)"
)
_REGISTRIES = patterns.lazy(
    r"https?://(?:[\w.-]+\.)?(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|pytorch\.org|rubygems\.org|crates\.io)/"
)


def _installs_address(command: SimpleCommand) -> bool:
    """Return True if the installed or started package comes from an address instead of a registry."""
    rest = options.split(command.words[1:], download_sources.TAKING).rest
    return any(
        _ADDRESS.match(word.text) and not _REGISTRIES.match(word.text) and not _is_local(word.text) for word in rest
    )


def _root_shell(command: SimpleCommand) -> bool:
    """Return True if an interactive shell of another user, usually root, is started."""
    taking = frozenset("-u -g -h -p -C -r -t -U --user --group --host -c --command".split())
    args = options.split(command.words[1:], taking, stop=True)
    rest = [posixpath.basename(word.text) for word in args.rest]
    if command.program == "su":
        return (
            not args.has(("-c", "--command", "-s", "--help"))
            and not any(text == "-c" for text in rest)
            and command.feed is None
        )
    if not rest:
        return args.has(("-i", "-s", "--login", "--shell")) or command.program == "run0"
    return len(rest) == 1 and rest[0] in SHELLS and command.feed is None


def _dns_words(command: SimpleCommand) -> bool:
    """Return True if the name of a DNS query contains the output of another command."""
    return any(word.made_by and re.search(r"\$\(…\)\.|\$\{\w+\}\.\w", word.text) for word in command.words[1:])


def _wipes_log(command: SimpleCommand) -> bool:
    return any(
        redirect.operator in (">", ">|", "&>") and re.match(r"/var/log/(?!nginx/.*\.tmp)", redirect.target.text)
        for redirect in command.redirects
    ) and command.program in ("", ":", "true", "echo", "cat", "printf")


def _fills_disk(command: SimpleCommand) -> bool:
    """Return True if a file grows until the disk is full."""
    endless = {"/dev/zero", "/dev/urandom", "/dev/random"}
    to_file = any(
        redirect.operator.startswith(">") and redirect.target.text not in ("/dev/null", "/dev/full")
        for redirect in command.redirects
    )
    if command.program == "dd":
        ends = any(text.startswith(("count=", "of=/dev/null")) for text in command.texts)
        return (
            not ends
            and any(f"if={name}" in command.texts for name in endless)
            and any("of=" in text for text in command.texts)
        )
    return to_file and (command.program == "yes" or (command.program == "cat" and bool(endless & set(command.texts))))


def _reads_private_input(command: SimpleCommand) -> bool:
    return any(
        redirect.operator == "<" and path_classes.path_class(redirect.target, command.folder) == "private"
        for redirect in command.redirects
    )


def _kills_what_runs(command: SimpleCommand) -> bool:
    """Return True for `ps … | xargs kill` without anything that selects from the list."""
    made_by = set(command.feed.made_by if command.feed else ()) | {
        name for word in command.words[1:] for name in word.made_by
    }
    return (
        "ps" in made_by
        and not made_by & {"grep", "egrep", "rg", "pgrep", "head", "jq"}
        and "xargs" in (*command.through, "xargs")
    )


_KEYS = patterns.lazy(
    r"(?i)id_(?:rsa|dsa|ecdsa|ed25519)|\.(?:pem|pfx|p12|kdbx?|keystore|jks|ppk|asc)\b|\.env\b|credentials|\.netrc|wallet\.dat"
    r"|secret|passw|private.key|wallet|\.key\b|\bid_\*|^\.(?:aws|ssh|gnupg)$|wp-config|api.?key|token|AKIA|shadow\b|\.ovpn"
)


def _searches_keys(command: SimpleCommand) -> bool:
    """Return True if a command searches for keys outside the project."""
    words = [word for word in command.words[1:] if not word.text.startswith("-") or word.text.startswith("-name=")]
    if not any(_KEYS.search(word.text) for word in words):
        return False
    if command.program in ("locate", "plocate"):
        return True
    beyond = (word for word in words if word.text[:1] in "/~$" and not word.text.startswith(("/usr/", "/lib")))
    return any(path_classes.path_class(word, command.folder) in ("home", "machine") for word in beyond)


def _replaces(command: SimpleCommand) -> bool:
    """Return True if the last argument, or the target of `dd` or `tee`, is a program or library of the system."""
    if command.program in ("tee", "dd"):
        return True
    rest = options.split(command.words[1:], _TAKING).rest
    system = re.compile(r"/(?:usr/)?(?:s?bin|lib(?:32|64|exec)?)/|/etc/alternatives/")
    links = command.program == "ln" and len(rest) > 1 and system.match(rest[0].text)
    return len(rest) > 1 and not links and system.match(rest[-1].text) is not None


def _becomes_root(command: SimpleCommand) -> bool:
    """Return True if `su -c` runs a command as root."""
    args = options.split(
        command.words[1:], frozenset(("-c", "--command", "-s", "--shell", "-g", "-G", "--session-command"))
    )
    users = [word.text for word in args.rest if word.text != "-"]
    return args.value("-c", "--command", "--session-command") is not None and users[:1] in ([], ["root"])


def _edits_profile(command: SimpleCommand) -> bool:
    """Return True if a program writes, without a redirection, to a file that is run automatically."""
    names = [
        re.sub(r"^of=", "", word.text)
        for word in command.words[1:]
        if command.program != "dd" or word.text.startswith("of=")
    ]
    return any(path_classes.path_class(ShellWord(name), command.folder) == "profile" for name in names)


_OWN_HOOKS = patterns.lazy(r"(?:\./)?\.?(?:git-?)?hooks/?|\.husky(?:/_)?/?")


def _git_config_runs(command: SimpleCommand) -> bool:
    """Return True if a git setting contains a command that is not one of the ordinary ones."""
    rest = [
        word.text for word in options.split(command.words[2:], frozenset(("-f", "--file", "--blob", "--type"))).rest
    ]
    key, *values = rest[1:] if rest[:1] == ["set"] else rest or [""]
    if not values:
        return False
    if key.lower().startswith("alias."):
        return values[0].startswith("!")
    allowed = git_programs.ordinary_programs(key)
    if allowed is None or (key.lower() == "core.hookspath" and _OWN_HOOKS.fullmatch(values[0])):
        return False
    return not command_values.ordinary(values[0], allowed)


def _pushes_elsewhere(command: SimpleCommand) -> bool:
    rest = options.split(command.words[2:]).rest
    return bool(rest) and rest[0].text not in ("origin", "upstream")


def _pushes_to_stranger(command: SimpleCommand) -> bool:
    """Return True if `git push` gets an address that is not on a well-known forge."""
    rest = options.split(command.words[2:], frozenset(("-o", "--push-option"))).rest
    address = rest[0].text if rest else ""
    return re.match(r"(?:https?|git|ssh)://[^$]|[\w.-]+@[\w.-]+:", address) is not None and not _FORGES.match(
        f"url.{address}"
    )


def _installs_short(command: SimpleCommand) -> bool:
    """Return True if the installed package, or the program to run, is named `owner/repository`."""
    rest = options.split(command.words[1:], download_sources.TAKING | {"-p", "--package", "-w", "--workspace"}).rest
    if command.program in ("npx", "bunx", "pnpx"):
        named = rest[:1]
    else:
        starts = rest and rest[0].text in ("dlx", "x", "exec")  # the words after the program are its arguments
        named = rest[1:2] if starts else rest[1:] if rest and rest[0].text in ("install", "i", "add") else ()
    return any(re.fullmatch(r"[A-Za-z0-9][\w-]*/[\w.-]+(?:#[\w./-]+)?", word.text) for word in named)


def _mounts_over(command: SimpleCommand) -> bool:
    """Return True if something is mounted over, or unmounted from, a system folder or a home."""
    args = options.split(command.words[1:], frozenset("-t --types -o --options -L -U --source --target".split()))
    if command.program == "umount":
        return any(path_classes.path_class(word, command.folder) in _WHOLE_PLACES for word in args.rest) or args.has(
            ("-R", "--recursive")
        )
    target = args.value("--target") or (args.rest[-1].text if len(args.rest) > 1 else "")
    return bool(target) and path_classes.path_class(ShellWord(target), command.folder) in (
        "machine",
        "home",
        "profile",
        "private",
    )


_MANAGERS = frozenset("pip pip3 uv npm pnpm gem cargo conda pipx brew apt dpkg".split())


def _removes_listed(command: SimpleCommand) -> bool:
    """Return True if every package is removed, as listed by the package manager itself."""
    listed = {name for word in command.words[1:] for name in word.made_by}
    listed |= set(command.feed.made_by) if command.feed and "xargs" in command.through else set()
    return bool(listed & _MANAGERS) and not listed & {"grep", "egrep", "rg", "head", "awk", "jq", "fzf"}


def _takes_name(command: SimpleCommand) -> bool:
    """Return True if a file from a temp folder is installed as a program."""
    rest = options.split(command.words[1:], _TAKING).rest
    programs = re.compile(r"(?:/usr/local/s?bin|(?:~|\$\{?HOME\}?|/home/[^/]+|/root)/(?:\.local/)?bin)(?:/|$)")
    return (
        len(rest) > 1
        and programs.match(rest[-1].text) is not None
        and any(re.match(r"/(?:tmp|var/tmp|dev/shm)/", word.text) for word in rest[:-1])
    )


def _unpacks_home(command: SimpleCommand) -> bool:
    taking = frozenset(("-C", "--directory", "-d", "-D"))
    args = options.split(command.words[1:], taking)
    packs = command.program.endswith("tar") and re.match(r"-?\w*[cru]", command.texts[1]) is not None
    targets = [value for name, value in args.values if name in taking]
    system = re.compile(r"/(?:etc|bin|sbin|boot|lib\w*|usr|usr/s?bin|usr/lib)?/?$")
    return not packs and any(
        path_classes.path_class(ShellWord(value), command.folder) == "home" or system.match(value) for value in targets
    )


def _finds_to_remove_all(command: SimpleCommand) -> bool:
    """Return True if `find -exec rm` removes everything, without a filter on name, age or size."""
    texts = set(command.texts)
    picks = {
        text
        for text in texts
        if re.match(r"-i?(?:name|path|wholename|regex)|-[cma](?:time|min)|-newer|-size|-empty", text)
    }
    removes = bool({"-exec", "-execdir"} & texts) and bool({"rm", "unlink", "/bin/rm"} & texts)
    return removes and not picks and bool({"here", "relative", "above"} & set(find_starts(command)))


def _serves_home(command: SimpleCommand) -> bool:
    if command.program == "php" and "-S" not in command.texts:
        return False
    named = [word for word in command.words[1:] if word.text[:1] in ("/", "~", "$")]
    return any(path_classes.path_class(word, command.folder) in ("home", "machine") for word in named)


_USUAL_SOURCES = patterns.lazy(
    r"ppa:(?:deadsnakes|ubuntu-toolchain-r|git-core|neovim-ppa)/|https://\S*(?:flathub\.org|docker\.com|microsoft\.com)"
)


def _package_source(command: SimpleCommand) -> bool:
    """Return True if the system is configured to take packages from an address, or to trust a key."""
    texts = command.texts[1:]
    if any(_USUAL_SOURCES.match(text) for text in texts):
        return False
    if command.program in ("apt-key", "pacman-key", "add-apt-repository", "apt-add-repository"):
        return True
    return any(re.match(r"(?:--[\w-]+=)?https?://", text) or text in ("--dangerous", "--devmode") for text in texts)


_FORGES = patterns.lazy(
    r"(?i)url\.(?:https?://|ssh://|git://|git@)?(?:[^/@]*@)?(?:[\w-]+\.)*(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|googlesource\.com"
    r"|dev\.azure\.com|localhost)"
)


def _trusts_elsewhere(command: SimpleCommand) -> bool:
    """Return True if `git config url.….insteadOf` redirects requests to a host that is not a forge."""
    keys = [text for text in command.texts[2:] if re.match(r"(?i)url\..*\.(?:push)?insteadof$", text)]
    return any(not _FORGES.match(key) and "://" in key for key in keys)


CHECKS: dict[str, Callable[[SimpleCommand], bool]] = {
    "asks-others": _asks_others,
    "copies-home-away": uploads.sends_home,
    "cuts": _cuts,
    "edits-profile": _edits_profile,
    "dns-words": _dns_words,
    "fills-disk": _fills_disk,
    "find-delete": _finds_to_delete,
    "find-sends": _finds_to_send,
    "find-whole": _finds_to_remove_whole,
    "find-writes": _finds_to_write,
    "git-output": _git_output_is_guarded,
    "reads-jobs": _reads_jobs,
    "xargs-whole": _changes_whole,
    "formats": _formats,
    "git-config-runs": _git_config_runs,
    "git-branch-delete": lambda command: git_commands.deletes_branch(command.words[2:]),
    "git-checkout-overwrite": lambda command: git_commands.checkout_overwrites(command.words[2:]),
    "git-clean": lambda command: git_commands.cleans_files(command.words[2:], command.source),
    "git-push-delete": lambda command: git_commands.deletes_remote(command.words[2:]),
    "git-push-force": lambda command: git_commands.pushes_by_force(command.words[2:]),
    "git-restore": lambda command: git_commands.restores_files(command.words[2:]),
    "git-switch-force": lambda command: git_commands.switches_by_force(command.words[2:]),
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
    "sends-private": uploads.sends_private,
    "syncs-away": _syncs_away,
    "plain-http": download_sources.uses_plain_http,
    "deploys-address": download_sources.deploys_address,
    "go-settings": download_sources.sets_unproven_go,
    "keeps-secret": secret_keepers.writes_secret,
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
    "unproven-source": download_sources.takes_unproven_packages,
    "wipes-log": _wipes_log,
}
