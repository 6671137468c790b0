"""Decide whether an edit of a file that tools run automatically adds something that acts; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import ChangedFile

_YAML = (".yml", ".yaml")
# Keys that structure a pipeline or a list of hooks, say where and when it runs, or which version it uses.
_HARMLESS = frozenset(
    """
    name branches branches-ignore tags tags-ignore paths paths-ignore only except python-version python-versions python
    node-version node_js go-version go ruby rust java php os dist arch architecture matrix include exclude fail-fast
    fast_finish max-parallel timeout-minutes needs stage stages concurrency group cancel-in-progress cron schedule rev
    types types_or files default_language_version default_stages language_version minimum_pre_commit_version ci
    autofix_prs autoupdate_schedule autoupdate_commit_msg autofix_commit_msg id if True on push pull_request
    workflow_dispatch jobs job steps strategy with repos hooks cache cache-dependency-path fetch-depth flags
    fail_ci_if_error retention-days key restore-keys allow-prereleases check-latest version description toxenv tox_env
    tox-env nox-session experimental label runs-on verbose
    """.split()  # noqa: SIM905 - reads better as text
)
# Keys whose value is run, fetched or given to a program, whatever it looks like.
_ACTS = lazy(
    r"(?i)^(?:run|scripts?|(?:before|after|pre|post)[_-]\w+|install|entry|commands?|cmd|args|exec|image|uses|repo|shell|"
    r"additional_dependencies|env|environment|container|services|permissions|secrets|url|source|inputs|orbs?)$"
)
# What gives a pipeline more than the right to run on a fresh machine: rights, keys, triggers that strangers can pull.
_RIGHTS = lazy(r"^(?:permissions|secrets|secure|pull_request_target|workflow_run|deploy|environment)$")
_KEYS_OF_SERVERS = lazy(r"(?i)\bsecrets\b|token|passw|credential|api_?key")
_FETCHED = frozenset(("include", "remote", "project", "component"))  # keys of pipelines that are fetched from elsewhere
_READS = frozenset(("", "read", "none", "read-all", "{}"))  # permissions that let a pipeline change nothing
_EXPRESSION = lazy(r"\$\{\{[^}]*\}\}|'")
_OWN_TOKEN = lazy(r"(?i)^\$\{\{\s*(?:secrets\.github_token|github\.token)\s*\}\}$")
_NO_COMMANDS = _HARMLESS | {"path", "method", "requirements", "extra_requirements"}  # the last three of Read the Docs
_COMPUTED = lazy(r"\$\{\{[^}]*\}\}")
_COMPUTED_COMMAND = lazy(r"(?m)^\s*[\"']?\$\{\{")
_VARIABLES = frozenset(("env", "environment", "variables"))
_LISTS_OF_ACTIONS = frozenset(("include", "steps", "jobs", "hooks", "repos"))
_VERSION = lazy(r"(?i)^[\w.~^<>=!*+-]{1,24}$")
_HOSTED = lazy(r"(?i)^(?:ubuntu|windows|macos|focal|jammy|noble|xenial|bionic|trusty)[\w.-]*$|^\$\{\{\s*matrix\.")
_PLAIN_SETTINGS_FILE = lazy(r"(?:^|/)\.p?npmrc$")
# Settings of npm and pnpm that name no program, no source and no file.
_PLAIN_SETTINGS = frozenset(
    """
    package-lock lockfile save save-exact save-prefix engine-strict fund audit progress loglevel legacy-peer-deps
    strict-peer-dependencies auto-install-peers ignore-scripts update-notifier tag-version-prefix sign-git-tag
    shrinkwrap prefer-frozen-lockfile
    """.split()  # noqa: SIM905 - reads better as text
)

Keys = tuple[str, ...]


def adds_action(change: ChangedFile) -> bool:
    """Return True unless both versions can be read and the new one runs, fetches and passes nothing new.

    Another version of an action or a hook that is used already, or of an interpreter, is nothing new.
    """
    if _PLAIN_SETTINGS_FILE.search(change.path):
        return not all(map(_is_plain_setting, _added_settings(change)))
    added = _added_values(change)
    return change.before is None or added is None or any(not _is_harmless(keys, value) for keys, value in added)


def _added_settings(change: ChangedFile) -> Counter[str]:
    """Return the settings that the new version has more of, each as `name=value`."""
    old, new = (
        Counter(line.strip() for line in (data or b"").decode("utf-8", "replace").splitlines())
        for data in (change.before, change.after)
    )
    return Counter({line: count for line, count in (new - old).items() if line and line[0] not in "#;"})


def _is_plain_setting(line: str) -> bool:
    name, _, value = (part.strip() for part in line.partition("="))
    return name in _PLAIN_SETTINGS and bool(_VERSION.match(value)) and (name != "ignore-scripts" or value == "true")


def added_power(change: ChangedFile, is_dangerous: Callable[[str], bool]) -> str | None:
    """Return the first new right, key or dangerous command of a pipeline: empty if it has none, None if unreadable."""
    added = _added_values(change)
    if added is None:
        return None
    powers = (f"{keys[-1]}: {value}".strip() for keys, value in added if _is_power(keys, value, is_dangerous))
    return next(powers, "")


def _is_power(keys: Keys, value: str, is_dangerous: Callable[[str], bool]) -> bool:
    if "permissions" in keys and value.lower() in _READS:
        return False
    rights = keys[1:] if keys and keys[0] == "environment" else keys  # on top, it holds variables and versions
    if any(_RIGHTS.match(key) for key in rights) or _holds_key(keys, value):
        return True
    if keys and keys[-1] == "runs-on":
        return bool(value) and _HOSTED.match(value) is None
    if keys and value and keys[-1] in _FETCHED and "include" in keys and "matrix" not in keys:
        return True
    if len(keys) > 1 and keys[-2] in _VARIABLES:
        return bool(value) and is_dangerous(f"{keys[-1]}='{_EXPRESSION.sub('x', value)}' true")
    return _is_command(keys, value) and (
        _COMPUTED_COMMAND.search(value) is not None or is_dangerous(_COMPUTED.sub("${X}", value))
    )


def _holds_key(keys: Keys, value: str) -> bool:
    """Return True for a key of the servers; the token of the job itself may be given to an action, which has it."""
    if len(keys) > 1 and keys[-2] == "with" and _OWN_TOKEN.match(value):
        return False
    return _KEYS_OF_SERVERS.search(value) is not None


def _is_command(keys: Keys, value: str) -> bool:
    return bool(value) and any(_ACTS.match(key) for key in keys) and keys[-1] not in _NO_COMMANDS


def _added_values(change: ChangedFile) -> list[tuple[Keys, str]] | None:
    """Return the keys and scalars that the new version has more of, or None if a version cannot be read."""
    if not change.path.lower().endswith(_YAML):
        return None
    import yaml  # noqa: PLC0415 - only if a YAML file changed

    try:
        old, new = (Counter(_values(yaml.safe_load(content or b""))) for content in (change.before, change.after))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        return None
    return list(new - old)


def _values(node: Any, keys: Keys = ()) -> Iterator[tuple[Keys, str]]:  # noqa: ANN401 - any YAML value
    """Yield each scalar with the keys above it, and each key of a mapping."""
    if isinstance(node, dict):
        for key, child in node.items():
            inner = (*keys, str(key))
            yield inner, ""
            yield from _values(child, inner)
    elif isinstance(node, list):
        for child in node:
            yield from _values(child, keys)
    elif node is not None:
        text = str(node)
        if keys and keys[-1] == "uses":  # the address of a repository may have a user before an @
            text = text.partition("@")[0]
        yield keys, text


def _is_harmless(keys: Keys, value: str) -> bool:
    if any(_ACTS.match(key) for key in keys):
        return False
    if not keys:
        return False
    key = keys[-1]
    if not value:  # a key: the names of jobs and of the matrix's own entries are free
        return key in _HARMLESS or (len(keys) > 1 and keys[-2] in ("jobs", "matrix", "include"))
    if key == "runs-on":
        return _HOSTED.match(value) is not None
    if key in _LISTS_OF_ACTIONS and "matrix" not in keys:
        return False  # a name alone, which stands for something that acts
    return key in _HARMLESS or _VERSION.match(value) is not None
