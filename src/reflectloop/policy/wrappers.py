"""Commands that start another command: which arguments are their own, and which are the other command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflectloop.policy import options
from reflectloop.policy.simple_command import Inner, ShellScript, ShellWord, SimpleCommand
from reflectloop.system import patterns

_ASSIGNMENT = patterns.lazy(r"[\w.-]*=")


class Wrapper(NamedTuple):
    """The options that take a value, and the number of arguments before the command."""

    taking: str = ""
    skip: int = 0
    assigns: bool = False
    after: str = ""  # the command starts after this word, such as `run` in `poetry run`
    split: bool = False  # the words are joined and run by a shell


_SUDO = """
    -u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot --role --type
    --close-from
"""
_RUN = """
    -e --env -v --volume -w --workdir -u --user -p --publish --name --network --net --entrypoint -m
    --memory --cpus --mount -h --hostname -l --label --platform --env-file --add-host --device --gpus
    --ulimit --shm-size --restart --cap-add --cap-drop --security-opt --pull --ip --dns --log-driver
    --log-opt --tmpfs --volumes-from --link --pid --ipc --userns --runtime --expose --stop-signal
    --health-cmd
"""
_KUBE = """
    -n --namespace -c --container --context --kubeconfig --cluster --user -s --server -f --filename
    --request-timeout --as --token
"""
_NODE = "-p --package -w --workspace -C --dir --filter -F --prefix --cwd"
WRAPPERS: dict[str, Wrapper] = {
    "aws-vault": Wrapper("-d --duration --region", 1, after="exec"),
    "bundle": Wrapper(after="exec"),
    "bun": Wrapper("--cwd --filter", after="x|exec"),
    "bunx": Wrapper(),
    "asdf": Wrapper(after="exec"),
    "composer": Wrapper("-d --working-dir", after="exec"),
    "dotenvx": Wrapper("-f --env-file -e", after="run"),
    "env-cmd": Wrapper("-f --file -e --environments"),
    "lerna": Wrapper("--scope --ignore --since --concurrency", after="exec"),
    "nx": Wrapper(after="exec"),
    "tox": Wrapper("-e", after="exec"),
    "volta": Wrapper("--node --npm --yarn", after="run"),
    "fnm": Wrapper("--using", after="exec"),
    "nvm": Wrapper("", 1, after="exec"),
    "rvm": Wrapper(after="do"),
    "devbox": Wrapper("-c --config", after="run"),
    "cargo-with": Wrapper(),
    "busybox": Wrapper(),
    "arch-chroot": Wrapper("-u", 1),
    "bwrap": Wrapper(
        "--setenv --chdir --dev --proc --tmpfs --unsetenv --uid --gid --hostname --seccomp --args --cap-add --cap-drop"
    ),
    "caffeinate": Wrapper("-t -w"),
    "catchsegv": Wrapper(),
    "ccache": Wrapper(),
    "chpst": Wrapper("-u -U -e -/ -n -l -L -m -d -o -p -f -c"),
    "chroot": Wrapper("--userspec --groups", 1),
    "chrt": Wrapper("-T -P -D", 1),
    "cgexec": Wrapper("-g"),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "conda": Wrapper("-n --name -p --prefix --cwd", after="run"),
    "coverage": Wrapper(after="exec"),
    "choom": Wrapper("-n -p"),
    "cpulimit": Wrapper("-l -p -e --limit"),
    "cross-env": Wrapper(assigns=True),
    "daemonize": Wrapper("-a -c -e -o -p -l -u"),
    "dbus-run-session": Wrapper("--config-file"),
    "direnv": Wrapper("", 1, after="exec"),
    "distrobox": Wrapper("-n --name", after="enter"),
    "doas": Wrapper("-u -C"),
    "doppler": Wrapper("-p --project -c --config -t --token", after="run"),
    "dotenv": Wrapper("-f --file -e", after="run"),
    "eatmydata": Wrapper(),
    "env": Wrapper("-u -C -P --unset --chdir", assigns=True),
    "exec": Wrapper("-a"),
    "fakechroot": Wrapper(),
    "fakeroot": Wrapper("-l -s -i -b --lib --faked"),
    "flatpak-spawn": Wrapper("--env --directory"),
    "distrobox-host-exec": Wrapper(),
    "firejail": Wrapper(),
    "fly": Wrapper("-a --app", after="exec"),
    "gosu": Wrapper("", 1),
    "hatch": Wrapper("-e --env", after="run"),
    "infisical": Wrapper("--env --path", after="run"),
    "ionice": Wrapper("-c -n -P -u --class --classdata"),
    "logsave": Wrapper("", 1),
    "linux32": Wrapper(),
    "linux64": Wrapper(),
    "ltrace": Wrapper("-o -e -p -s -u -n -a -l"),
    "mamba": Wrapper("-n --name -p --prefix", after="run"),
    "micromamba": Wrapper("-n --name -p --prefix -r", after="run"),
    "mise": Wrapper(after="exec|x"),
    "nice": Wrapper("-n --adjustment"),
    "nocache": Wrapper(),
    "noglob": Wrapper(),
    "nohup": Wrapper(),
    "npx": Wrapper(_NODE),
    "nsenter": Wrapper("-t --target -S -G -r -w"),
    "numactl": Wrapper("-N -m -C -i -p"),
    "op": Wrapper("--env-file --account", after="run"),
    "pdm": Wrapper("-p --project", after="run"),
    "pkexec": Wrapper("--user"),
    "perf": Wrapper("-o -e -F", after="record|stat"),
    "pipenv": Wrapper(after="run"),
    "pipx": Wrapper("--spec --python --pip-args", after="run"),
    "pixi": Wrapper("-e --environment --manifest-path", after="run"),
    "poetry": Wrapper("-C --directory", after="run"),
    "prlimit": Wrapper(),
    "proot": Wrapper("-r -b -w -R -S --rootfs --bind --cwd"),
    "proxychains": Wrapper("-f"),
    "proxychains4": Wrapper("-f"),
    "pyenv": Wrapper(after="exec"),
    "rbenv": Wrapper(after="exec"),
    "rlwrap": Wrapper("-f -H -a -p"),
    "rtk": Wrapper(),
    "runuser": Wrapper("-u -g -G --user --group"),
    "rye": Wrapper(after="run"),
    "s6-setuidgid": Wrapper("", 1),
    "schroot": Wrapper("-c -u -d --chroot --user --directory"),
    "setarch": Wrapper("", 1),
    "setpriv": Wrapper("--reuid --regid --groups"),
    "setsid": Wrapper(),
    "setuidgid": Wrapper("", 1),
    "softlimit": Wrapper("-m -d -s"),
    "sops": Wrapper("", 1, after="exec-env"),
    "sshpass": Wrapper("-p -f -d -P"),
    "stdbuf": Wrapper("-i -o -e --input --output --error"),
    "strace": Wrapper("-o -e -p -s -u -a -I -E -O -P -S -b"),
    "su-exec": Wrapper("", 1),
    "rr": Wrapper("-o", after="record"),
    "systemd-cat": Wrapper("-t -p --identifier --priority"),
    "dbus-launch": Wrapper(),
    "faketime": Wrapper("-f -m", 1),
    "ifne": Wrapper(),
    "chronic": Wrapper(),
    "sem": Wrapper("-j --id --jobs"),
    "pssh": Wrapper("-h -H -l -p -t -o -e -x -X -O"),
    "parallel-ssh": Wrapper("-h -H -l -p -t -o -e -x -X -O"),
    "lxc": Wrapper("--cwd --env --user --group --mode", 1, after="exec"),
    "incus": Wrapper("--cwd --env --user --group --mode", 1, after="exec"),
    "machinectl": Wrapper("--uid --setenv -E", 1, after="shell"),
    "busybox.static": Wrapper(),
    "sudo": Wrapper(_SUDO, assigns=True),
    "systemd-inhibit": Wrapper(),
    "systemd-run": Wrapper("-u -p -E -M -H --unit --property --setenv --slice --uid --gid", assigns=True),
    "systemd-nspawn": Wrapper("-D -M -u --directory --machine --user --bind --bind-ro"),
    "taskset": Wrapper("", 1),
    "time": Wrapper("-f -o --format --output"),
    "timeout": Wrapper("-s -k --signal --kill-after", 1),
    "gtimeout": Wrapper("-s -k --signal --kill-after", 1),
    "torsocks": Wrapper(),
    "torify": Wrapper(),
    "toybox": Wrapper(),
    "tsocks": Wrapper(),
    "unbuffer": Wrapper(),
    "unshare": Wrapper("-S -G -R -w"),
    "uv": Wrapper(
        "-p --python --with --extra --group --directory --project --with-requirements --env-file", after="run|x"
    ),
    "uvx": Wrapper("-p --python --with --from"),
    "valgrind": Wrapper(),
    "watch": Wrapper("-n --interval", split=True),
    "wsl": Wrapper("-d -u --distribution --user --cd -e"),
    "xvfb-run": Wrapper("-s -n -e -f -w -p --server-args --server-num"),
    "yarn": Wrapper(_NODE, after="exec|dlx"),
    "pnpm": Wrapper(_NODE, after="exec|dlx"),
    "npm": Wrapper(_NODE, after="exec|x"),
    "docker": Wrapper(_RUN, 1, after="exec|run"),
    "podman": Wrapper(_RUN, 1, after="exec|run"),
    "nerdctl": Wrapper(_RUN, 1, after="exec|run"),
    "docker-compose": Wrapper(_RUN + " -f --file --project-directory", 1, after="exec|run"),
    "kubectl": Wrapper(_KUBE, 1, after="exec"),
    "oc": Wrapper(_KUBE, 1, after="exec|rsh"),
    "adb": Wrapper("-s -t -H -P", after="shell", split=True),
    "heroku": Wrapper("-a --app -s --size", after="run", split=True),
    "ssh": Wrapper("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B", 1, split=True),
    "autossh": Wrapper("-b -c -D -E -e -F -I -i -J -L -l -m -M -O -o -p -Q -R -S -W -w -B", 1, split=True),
    "mosh": Wrapper("-p", 1),
    "rsh": Wrapper("-l", 1, split=True),
    "entr": Wrapper(),
    "flock": Wrapper("-w -E --timeout", 1),
}


def inner_commands(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the command that a wrapper starts with its remaining arguments."""
    wrapper = WRAPPERS.get(command.program)
    if wrapper:
        yield from _unwrapped(command, wrapper)
    elif command.words and _ASSIGNMENT.match(command.words[0].text) and len(command.words) > 1:
        yield command.inside(command.words[1:])


def _unwrapped(command: SimpleCommand, wrapper: Wrapper) -> Iterator[Inner]:
    words: Sequence[ShellWord] = command.words[1:]
    taking = frozenset(wrapper.taking.split())
    if wrapper.after:
        words = _arguments_after(words, wrapper.after.split("|"))
    words = options.split(words, taking, stop=True).rest
    if wrapper.assigns:
        words = _without_assignments(words, taking)
    if wrapper.skip:
        words = options.split(words[wrapper.skip :], taking if wrapper.split else frozenset(), stop=True).rest
    if not words:
        return
    line = " ".join(word.text for word in words)
    if wrapper.split:
        yield ShellScript(line, (*command.through, command.program))
        if command.feed is not None and re.fullmatch(r"[\w./ -]{1,80}", line):
            yield command.inside(tuple(ShellWord(text) for text in line.split()))  # it has the same input
    elif command.program in ("uv", "uvx") and words[0].text == "-":
        yield command.inside((ShellWord("python3"), *words))
    else:
        yield command.inside(tuple(words))
        if len(words) == 1 and " " in words[0].text.strip():
            yield ShellScript(line, (*command.through, command.program), guess=True)


def _arguments_after(words: Sequence[ShellWord], names: Sequence[str]) -> Sequence[ShellWord]:
    """Return the arguments after the first of `names`, if that is a subcommand."""
    for at, word in enumerate(words):
        if word.text in names:
            return words[at + 1 :]
        if word.text in ("install", "add", "build", "test", "publish", "delete", "create", "get", "apply", "--"):
            break
    return ()


def _without_assignments(words: Sequence[ShellWord], taking: frozenset[str]) -> Sequence[ShellWord]:
    while words and (_ASSIGNMENT.match(words[0].text) or words[0].text == "-"):
        words = options.split(words[1:], taking, stop=True).rest
    return words
