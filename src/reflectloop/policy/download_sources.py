"""Finds servers that code is taken from: other package indexes, servers that prove nothing, addresses. Pure."""

from __future__ import annotations

import re

from reflectloop.policy import options
from reflectloop.policy.files import FETCHERS
from reflectloop.policy.simple_command import SimpleCommand

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
_LOOPBACK = re.compile(r"[a-z+]*:?/*(?:localhost|127\.|\[?::1|0\.0\.0\.0|host\.docker)")
# Hosts that packages come from on most machines: registries, their mirrors, and what clouds and forges offer.
_KNOWN = re.compile(
    r"(?:https://|sparse\+https://)(?:[^/@]*@)?(?:[\w-]+\.)*(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|pytorch\.org|rubygems\.org|crates\.io"
    r"|yarnpkg\.com|npmmirror\.com|tsinghua\.edu\.cn|aliyun\.com|ustc\.edu\.cn|nvidia\.com|pkg\.dev|amazonaws\.com"
    r"|azure\.com|visualstudio\.com|gitlab\.com|github\.com|github\.io|jfrog\.io|cloudsmith\.io|gemfury\.com|fury\.io|anaconda\.org"
    r"|anaconda\.com|googleapis\.com|jsr\.io|golang\.org|goproxy\.(?:io|cn)|huggingface\.co|rocm\.com|amd\.com|intel\.com"
    r"|maven\.org|packagist\.org|nuget\.org|hex\.pm|test\.pypi\.org|anaconda\.cloud|prefix\.dev)(?:[:/,|]|$)"
)
_ADDRESS = re.compile(r"(?:git::|git\+|sparse\+)?(?:https?|oci|ftp|git|ssh)://")
_OFF = frozenset(("false", "0", "no", "off", "null"))


def is_unproven(address: str) -> bool:
    """Say whether packages from an address may be anybody's: plain http, or a host that is no registry."""
    parts = [part for part in re.split(r"[\s,|]+", address) if _ADDRESS.match(part)]
    return any(not _LOOPBACK.match(part) and not _KNOWN.match(part) for part in parts)


def of_packages(one: SimpleCommand) -> bool:
    """Whether packages are taken from another index, or from a server that need not prove who it is."""
    given = options.split(one.words[1:], TAKING | _TRUSTED)
    named = [value for name, value in given.values if name in _INDEXES]
    if "conda" in one.program or "mamba" in one.program:
        named += [value for name, value in given.values if name == "-c"]
    settings = {"config", "set", "sources", "source"} & set(one.texts[1:3])
    named += [word.text.partition("=")[2] or word.text for word in given.rest if settings]
    named += [value for name, value in given.values if settings and name in ("-a", "--add")]
    named += [part for name, value in given.values if name == "--pip-args" for part in re.split(r"[\s=]+", value)]
    trusted = [value for name, value in given.values if name in _TRUSTED]
    texts = one.texts
    if "config" in texts and any(text.endswith("trusted-host") for text in texts[:-1]):
        trusted += texts[-1].split()
    return (
        any(is_unproven(value) for value in named)
        or any(not _LOOPBACK.match(value) and not _KNOWN.match(f"https://{value}") for value in trusted)
        or _stops_checking(one)
    )


def _stops_checking(one: SimpleCommand) -> bool:
    """`strict-ssl false` and its kin, as a setting or as an option."""
    texts = one.texts[1:]
    for at, text in enumerate(texts):
        name, equals, value = text.lstrip("-").partition("=")
        following = value if equals else "".join(texts[at + 1 : at + 2])
        if name in ("strict-ssl", "ssl_verify", "secure-http", "enableStrictSsl") and following.lower() in _OFF:
            return True
    insecure = {"conda": ("-k", "--insecure"), "mamba": ("-k", "--insecure"), "bundle": ("--no-verify",)}
    return any(flag in texts for flag in insecure.get(one.program, ()))


def of_settings(one: SimpleCommand) -> bool:
    """`go env -w`: whether later commands take modules from elsewhere, or unchecked."""
    pairs = (word.text.partition("=") for word in one.words[1:])
    return any(not is_ordinary_go(name, value) for name, equals, value in pairs if equals)


def is_ordinary_go(name: str, value: str) -> bool:
    """Say whether a variable of go leaves the checks on, and the modules where they are."""
    if name == "GOPROXY":
        return not is_unproven(value)
    if name in ("GOINSECURE", "GONOSUMDB", "GONOSUMCHECK", "GONOPROXY", "GOPRIVATE"):
        return name != "GOINSECURE" and value not in ("*", "1")
    if name == "GOFLAGS":
        return "-insecure" not in value and "-toolexec" not in value
    return name != "GOSUMDB" or value != "off"


def of_deployment(one: SimpleCommand) -> bool:
    """Whether what is deployed or built comes from an address, or from a server through a pipe."""
    words = one.words[1:]
    texts = [word.text for word in words]
    if any(set(word.made_by) & FETCHERS for word in words):
        return True
    if (
        one.feed is not None
        and set(one.feed.made_by) & FETCHERS
        and set(texts) & {"-", "/dev/stdin", "--filename=-", "-f-"}
    ):
        return True
    values = [re.sub(r"^--?[\w-]+=", "", text) for text in texts]
    return any(
        (_ADDRESS.match(value) or re.match(r"github\.com/", value)) and not _LOOPBACK.match(value) for value in values
    )


def of_plain_http(one: SimpleCommand) -> bool:
    """Whether an address of plain http, on another machine, stands in an option or a word."""
    values = (re.sub(r"^--?[\w.-]+=", "", text).partition("http://") for text in one.texts[1:])
    return any(found and not _LOOPBACK.match(f"http://{rest}") for _, found, rest in values)
