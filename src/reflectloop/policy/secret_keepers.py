"""Knows commands that print a secret out of a keeper of secrets. Pure."""

from __future__ import annotations

import re

from reflectloop.policy.simple_command import SimpleCommand

MARK = "(secret)"  # among the programs that made a text: there is something private in it
# How the words of each keeper begin, or what they hold, where it prints a secret.
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
_LONGEST = 400  # characters of a command that are looked at


def prints(one: SimpleCommand) -> bool:
    """Say whether a command prints a secret."""
    pattern = _BY_NAME.get(one.program)
    return pattern is not None and re.match(pattern, " ".join(one.texts[1:])[:_LONGEST]) is not None


def keeps(one: SimpleCommand) -> bool:
    """Say whether a secret that a command prints is put into a file."""
    written = any(
        redirect.operator in (">", ">>", ">|", "&>") and not redirect.target.text.startswith(("/dev/", "&"))
        for redirect in one.redirects
    )
    copied = one.program == "tee" and one.feed is not None and MARK in one.feed.made_by and len(one.words) > 1
    return copied or (written and prints(one))


# Variables that hold a secret, and the hosts that it is meant for.
_MEANT_FOR = (
    (re.compile(r"AWS_SECRET_ACCESS_KEY|AWS_SESSION_TOKEN"), re.compile(r"amazonaws\.com|localhost")),
    (re.compile(r"GITHUB_TOKEN|GH_TOKEN|GITHUB_PAT|GH_PAT"), re.compile(r"git|ghcr\.io|localhost|codecov|coveralls")),
    (re.compile(r"NPM_TOKEN|NODE_AUTH_TOKEN"), re.compile(r"npm|registry|localhost")),
    (re.compile(r"OPENAI_API_KEY"), re.compile(r"openai|azure|localhost")),
    (re.compile(r"ANTHROPIC_API_KEY"), re.compile(r"anthropic|localhost")),
    (
        re.compile(r"\w*PRIVATE_KEY|(?:DB|DATABASE|POSTGRES|MYSQL|ROOT|SUDO)_PASSWORD|PGPASSWORD"),
        re.compile(r"localhost"),
    ),
)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_SECRET_NAME = re.compile(r"(?i)\w*(?:secret|passw|token|access_key|api_?key|private_key|credential)\w*")
_HOST = re.compile(r"https?://(?:[^/@\s]*@)?([^/:?\s]+)")


def names_secret(text: str) -> bool:
    """Say whether a variable in a text holds a secret, by its name."""
    return any(_SECRET_NAME.fullmatch(name) for name in _VARIABLE.findall(text[:_LONGEST]))


def goes_astray(one: SimpleCommand) -> bool:
    """Say whether a request takes a secret to a host that it is not meant for."""
    hosts = [found[1] for text in one.texts[1:] if (found := _HOST.match(text)) and "$" not in found[1]]
    names = {name for text in one.texts[1:] for name in _VARIABLE.findall(text[:_LONGEST])}
    strange = [host for host in hosts if not re.match(r"127\.|\[::1|0\.0\.0\.0", host)]
    return any(
        variable.fullmatch(name) and any(not meant.search(host) for host in strange)
        for name in names
        for variable, meant in _MEANT_FOR
    )
