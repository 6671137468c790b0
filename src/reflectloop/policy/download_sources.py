"""Find the servers that code is downloaded from: other package indexes, unverified servers, addresses. Pure."""

from __future__ import annotations

import re

from reflectloop.policy import options
from reflectloop.policy.files import FETCHERS
from reflectloop.policy.simple_command import SimpleCommand
from reflectloop.system import patterns

TAKING = frozenset(
    """
    --index-url -i --extra-index-url -f --find-links --registry -c --constraint -r --requirement --proxy --cert --source
    -s --default-index --index --prefix --cache --cafile -t --target --python -p --userconfig --cache-dir --log --report
    --channel --add --set --repo -a --pip-args
    """.split()
)
_INDEXES = frozenset(
    """
    --index-url -i --extra-index-url -f --find-links --registry --source -s --default-index --index --channel --add
    """.split()
)
_TRUSTED = frozenset(("--trusted-host", "--allow-insecure-host"))
_LOOPBACK = patterns.lazy(r"[a-z+]*:?/*(?:localhost|127\.|\[?::1|0\.0\.0\.0|host\.docker)")
# Hosts that packages usually come from: registries, their mirrors, clouds and forges.
_KNOWN = patterns.lazy(
    r"(?:https://|sparse\+https://)(?:[^/@]*@)?(?:[\w-]+\.)*(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|pytorch\.org|rubygems\.org|crates\.io"
    r"|yarnpkg\.com|npmmirror\.com|tsinghua\.edu\.cn|aliyun\.com|ustc\.edu\.cn|nvidia\.com|pkg\.dev|amazonaws\.com"
    r"|azure\.com|visualstudio\.com|gitlab\.com|github\.com|github\.io|jfrog\.io|cloudsmith\.io|gemfury\.com|fury\.io|anaconda\.org"
    r"|anaconda\.com|googleapis\.com|jsr\.io|golang\.org|goproxy\.(?:io|cn)|huggingface\.co|rocm\.com|amd\.com|intel\.com"
    r"|maven\.org|packagist\.org|nuget\.org|hex\.pm|test\.pypi\.org|anaconda\.cloud|prefix\.dev)(?:[:/,|]|$)"
)
_ADDRESS = patterns.lazy(r"(?:git::|git\+|sparse\+)?(?:https?|oci|ftp|git|ssh)://")
_OFF = frozenset(("false", "0", "no", "off", "null"))


def is_unproven(address: str) -> bool:
    """Return True if anybody may have put the packages at an address: plain http, or a host that is not a registry."""
    parts = [part for part in re.split(r"[\s,|]+", address) if _ADDRESS.match(part)]
    return any(not _LOOPBACK.match(part) and not _KNOWN.match(part) for part in parts)


def takes_unproven_packages(command: SimpleCommand) -> bool:
    """Return True if packages come from another index, or from a server that is not authenticated."""
    args = options.split(command.words[1:], TAKING | _TRUSTED)
    named = [value for name, value in args.values if name in _INDEXES]
    if "conda" in command.program or "mamba" in command.program:
        named += [value for name, value in args.values if name == "-c"]
    settings = {"config", "set", "sources", "source"} & set(command.texts[1:3])
    named += [word.text.partition("=")[2] or word.text for word in args.rest if settings]
    named += [value for name, value in args.values if settings and name in ("-a", "--add")]
    named += [part for name, value in args.values if name == "--pip-args" for part in re.split(r"[\s=]+", value)]
    trusted = [value for name, value in args.values if name in _TRUSTED]
    texts = command.texts
    if "config" in texts and any(text.endswith("trusted-host") for text in texts[:-1]):
        trusted += texts[-1].split()
    return (
        any(is_unproven(value) for value in named)
        or any(not _LOOPBACK.match(value) and not _KNOWN.match(f"https://{value}") for value in trusted)
        or _stops_checking(command)
    )


def _stops_checking(command: SimpleCommand) -> bool:
    """Return True for `strict-ssl false` and similar settings or options."""
    texts = command.texts[1:]
    for at, text in enumerate(texts):
        name, equals, value = text.lstrip("-").partition("=")
        following = value if equals else "".join(texts[at + 1 : at + 2])
        if name in ("strict-ssl", "ssl_verify", "secure-http", "enableStrictSsl") and following.lower() in _OFF:
            return True
    insecure = {"conda": ("-k", "--insecure"), "mamba": ("-k", "--insecure"), "bundle": ("--no-verify",)}
    return any(flag in texts for flag in insecure.get(command.program, ()))


def sets_unproven_go(command: SimpleCommand) -> bool:
    """Return True if `go env -w` makes later commands take modules from elsewhere, or unchecked."""
    pairs = (word.text.partition("=") for word in command.words[1:])
    return any(not is_ordinary_go(name, value) for name, equals, value in pairs if equals)


def is_ordinary_go(name: str, value: str) -> bool:
    """Return True if a variable of go keeps the checks on and the usual module source."""
    if name == "GOPROXY":
        return not is_unproven(value)
    if name in ("GOINSECURE", "GONOSUMDB", "GONOSUMCHECK", "GONOPROXY", "GOPRIVATE"):
        return name != "GOINSECURE" and value not in ("*", "1")
    if name == "GOFLAGS":
        return "-insecure" not in value and "-toolexec" not in value
    return name != "GOSUMDB" or value != "off"


def deploys_address(command: SimpleCommand) -> bool:
    """Return True if the deployed or built content comes from an address, or from a server through a pipe."""
    words = command.words[1:]
    texts = [word.text for word in words]
    if any(set(word.made_by) & FETCHERS for word in words):
        return True
    if (
        command.feed is not None
        and set(command.feed.made_by) & FETCHERS
        and set(texts) & {"-", "/dev/stdin", "--filename=-", "-f-"}
    ):
        return True
    values = [re.sub(r"^--?[\w-]+=", "", text) for text in texts]
    return any(
        (_ADDRESS.match(value) or re.match(r"github\.com/", value)) and not _LOOPBACK.match(value) for value in values
    )


def uses_plain_http(command: SimpleCommand) -> bool:
    """Return True if an option or argument contains a plain http address on another machine."""
    values = (re.sub(r"^--?[\w.-]+=", "", text).partition("http://") for text in command.texts[1:])
    return any(scheme and not _LOOPBACK.match(f"http://{rest}") for _, scheme, rest in values)
