"""Recognise commands that print a secret from a secret store. Pure."""

from __future__ import annotations

import re

from reflectloop.policy.simple_command import SimpleCommand
from reflectloop.system import patterns

MARK = "(secret)"  # in `made_by`: the text contains something private
# For each program, a pattern of the arguments with which it prints a secret.
_PRINTS = {
    "ansible-vault": r"(?:view|decrypt)\b",
    "aws": r".*\b(?:get-secret-value|get-session-token|get-login-password|get-federation-token|export-credentials"
    r"|get-parameters?(?:-by-path)?\b.*--with-decryption|kms decrypt)\b",
    "az": r".*\b(?:keyvault secret (?:show|download)|get-access-token|storage account keys list|acr credential show)\b",
    "bw": r"(?:get|export)\b",
    "chamber": r"(?:read|export)\b",
    "doppler": r"secrets\b(?!.*\b(?:set|delete|upload)\b)",
    "flyctl": r"auth token\b",
    "gcloud": r".*\b(?:secrets versions access|print-access-token|print-identity-token|kms decrypt)\b",
    "gh": r"auth (?:token\b|status\b.*(?:-t\b|--show-token))",
    "glab": r"auth (?:token\b|status\b.*(?:-t\b|--show-token))",
    "gopass": r"(?:show|cat)\b",
    "gpg": r".*--export-secret-(?:sub)?keys?\b",
    "heroku": r"(?:auth:token|config(?::get)?)\b",
    "infisical": r"(?:secrets|export)\b",
    "keyctl": r"(?:print|pipe|read)\b",
    "keyring": r"get\b",
    "kubectl": r"(?:-\S+ (?:[^-\s]\S* )?)*get (?:\S+ )*?secrets?(?:[/, ]\S*)?.*"
    r"(?:-o|--output)[= ]?(?:yaml|json|go-template|jsonpath|custom)",
    "lpass": r"(?:show|export)\b",
    "op": r"(?:read|item get|document get|inject)\b",
    "pass": r"(?:show|(?!ls|list|find|git|init|insert|generate|edit|rm|mv|cp|help|version|grep)[\w./-]+$)",
    "rbw": r"get\b",
    "secret-tool": r"(?:lookup|search)\b",
    "security": r"(?:find-(?:generic|internet)-password|dump-keychain|export)\b",
    "sops": r"(?:.*(?:\s|^)(?:-d|--decrypt)\b|decrypt\b)",
    "vault": r"(?:kv get|read|unwrap|print token|token create)\b",
}
_BY_NAME = {
    **_PRINTS,
    "gpg2": _PRINTS["gpg"],
    "oc": _PRINTS["kubectl"],
    "k": _PRINTS["kubectl"],
    "fly": _PRINTS["flyctl"],
}
_LONGEST = 400  # characters of a command that are matched


def prints_secret(command: SimpleCommand) -> bool:
    """Return True if a command prints a secret."""
    pattern = _BY_NAME.get(command.program)
    return pattern is not None and re.match(pattern, " ".join(command.texts[1:])[:_LONGEST]) is not None


def writes_secret(command: SimpleCommand) -> bool:
    """Return True if a secret that a command prints is written to a file."""
    written = any(
        redirect.operator in (">", ">>", ">|", "&>") and not redirect.target.text.startswith(("/dev/", "&"))
        for redirect in command.redirects
    )
    copied = (
        command.program == "tee"
        and command.feed is not None
        and MARK in command.feed.made_by
        and len(command.words) > 1
    )
    return copied or (written and prints_secret(command))


# Variables that contain a secret, and the hosts that may receive it.
_MEANT_FOR = (
    (patterns.lazy(r"AWS_SECRET_ACCESS_KEY|AWS_SESSION_TOKEN"), patterns.lazy(r"amazonaws\.com|localhost")),
    (
        patterns.lazy(r"GITHUB_TOKEN|GH_TOKEN|GITHUB_PAT|GH_PAT"),
        patterns.lazy(r"git|ghcr\.io|localhost|codecov|coveralls"),
    ),
    (patterns.lazy(r"NPM_TOKEN|NODE_AUTH_TOKEN"), patterns.lazy(r"npm|registry|localhost")),
    (patterns.lazy(r"OPENAI_API_KEY"), patterns.lazy(r"openai|azure|localhost")),
    (patterns.lazy(r"ANTHROPIC_API_KEY"), patterns.lazy(r"anthropic|localhost")),
    (
        patterns.lazy(r"\w*PRIVATE_KEY|(?:DB|DATABASE|POSTGRES|MYSQL|ROOT|SUDO)_PASSWORD|PGPASSWORD"),
        patterns.lazy(r"localhost"),
    ),
)
_VARIABLE = patterns.lazy(r"\$\{?(\w+)\}?")
_SECRET_NAME = patterns.lazy(r"(?i)\w*(?:secret|passw|token|access_key|api_?key|private_key|credential)\w*")
_HOST = patterns.lazy(r"https?://(?:[^/@\s]*@)?([^/:?\s]+)")


def names_secret(text: str) -> bool:
    """Return True if a text contains a variable whose name means a secret."""
    return any(_SECRET_NAME.fullmatch(name) for name in _VARIABLE.findall(text[:_LONGEST]))


def sends_secret_elsewhere(command: SimpleCommand) -> bool:
    """Return True if a request sends a secret to a host that should not receive it."""
    hosts = [match[1] for text in command.texts[1:] if (match := _HOST.match(text)) and "$" not in match[1]]
    names = {name for text in command.texts[1:] for name in _VARIABLE.findall(text[:_LONGEST])}
    remote_hosts = [host for host in hosts if not re.match(r"127\.|\[::1|0\.0\.0\.0", host)]
    return any(
        variable.fullmatch(name) and any(not meant.search(host) for host in remote_hosts)
        for name in names
        for variable, meant in _MEANT_FOR
    )
