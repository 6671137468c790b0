"""The scanner on real trees, six sources of PyPI and a tree of npm packages, and on fresh values planted in text.

`python -m proof.secret_trees FOLDER` keeps what it fetches in a folder, and uses what is there.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import string
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from proof.paper import Paper

SOURCES = {
    "google-auth": "2.62.2",
    "jupyter-server": "2.21.1",
    "oauthlib": "4.0.1",
    "scrapy": "2.19.0",
    "sentry-sdk": "2.74.0",
    "twine": "7.0.0",
}
PACKAGES = ["express@5.3.0", "firebase-admin@13.10.0", "next-auth@4.24.15", "stripe@23.1.0", "twilio@6.2.0"]
BEFORE = {"sources": 338, "packages": 519}  # findings of the rules of before
KNOWN = Path(__file__).with_suffix(
    ".json"
)  # fingerprints of what was reported before the rules changed, and after: a guard for later changes
_ABOUT = """The scanner on real trees, before and now, and on fresh values planted in text.

The rules of before gave one finding for each place; now a value is one finding for each file, with all its places. So
the number of findings fell by two causes; places (in the tables) compare like with like.

The values that the rules of before reported and those of today do not (58 in the sources, 187 in the packages) were
read one by one when the rules changed: names of algorithms, languages and code, versions, links, commit ids, digests
and signatures of requests, boundaries of forms, public pins, words, `username:password` in base64, and private keys cut
off after a line. None is a credential. That was judged by reading; the last claim for each tree only guards what was
left."""
_INDEX = "https://pypi.org/simple/{}/"
_ALNUM = string.ascii_letters + string.digits
_HEX = string.digits + "abcdef"


def fresh(letters: str, size: int) -> str:
    return "".join(secrets.choice(letters) for _ in range(size))


def fetch_sources(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, version in SOURCES.items():
        index = _INDEX.format(name)
        with urllib.request.urlopen(index, timeout=60) as answer:  # noqa: S310 - the index is named above
            links = re.findall(r'href="([^"#]+)', answer.read().decode())
        wanted = [link for link in links if link.endswith(f"-{version}.tar.gz")]
        with urllib.request.urlopen(urllib.parse.urljoin(index, wanted[0]), timeout=120) as answer:  # noqa: S310
            raw = answer.read()
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            archive.extractall(folder, filter="data")


def fetch_packages(folder: Path) -> None:
    folder.mkdir(parents=True)
    words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*words, *PACKAGES], check=True)


def scan(folder: Path, home: Path) -> tuple[list[dict[str, Any]], float]:
    """Return what the scanner reports below a folder, and the seconds it took."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "reflectloop", "scan", "--json", folder.name],
        cwd=folder.parent,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        stdout=subprocess.PIPE,
        check=False,
    )
    findings: list[dict[str, Any]] = json.loads(done.stdout)["data"]["findings"]
    return findings, time.monotonic() - began


def prove_tree(paper: Paper, name: str, folder: Path, home: Path) -> None:
    findings, spent = scan(folder, home)
    grades = Counter(finding["grade"] for finding in findings)
    places = sum(1 + len(finding.get("also") or ()) for finding in findings)
    most = BEFORE[name] // 2
    paper.claim(
        f"{name}: findings, a value once for each file, are at most half of the {BEFORE[name]} of before, one a place",
        f"{grades['certain']} certain and {grades['likely']} likely, in {places} places, {spent:.0f} s",
        holds=len(findings) <= most,
    )
    known = set(json.loads(KNOWN.read_text())[name])
    lost = known - {finding["fingerprint"] for finding in findings}
    paper.claim(
        f"{name}: every value that both the rules of before and those of 2026-11-15 report is reported",
        f"{len(known) - len(lost)} of {len(known)}",
        holds=not lost,
    )
    rules = Counter(finding["rule"] for finding in findings).most_common(8)
    paper.table(
        ["in " + name, "places before", "places now", "share"],
        [["", str(BEFORE[name]), str(places), f"{places / BEFORE[name]:.2f}"]],
    )
    paper.table([f"rule, in {name}", "findings"], [[rule, str(count)] for rule, count in rules])


def planted() -> dict[str, str]:
    """Return a fresh value of each of 34 kinds."""
    return {
        "github": "gh" + "p_" + fresh(_ALNUM, 36),
        "github app": "gh" + "s_" + fresh(_ALNUM, 36),
        "gitlab": "glpat-" + fresh(_ALNUM, 20),
        "aws id": "AK" + "IA" + fresh(string.ascii_uppercase + "234567", 16),
        "google": "AI" + "za" + fresh(_ALNUM, 35),
        "slack": "xoxb-" + "-".join((fresh(string.digits, 12), fresh(string.digits, 12), fresh(_ALNUM, 24))),
        "stripe": "sk_" + "live_" + fresh(_ALNUM, 24),
        "twilio": "S" + "K" + fresh(_HEX, 32),
        "sendgrid": "SG" + "." + fresh(_ALNUM, 22) + "." + fresh(_ALNUM, 43),
        "npm": "npm_" + fresh(_ALNUM, 36),
        "anthropic": "sk-ant-" + "api03-" + fresh(_ALNUM, 93) + "AA",
        "hugging face": "hf_" + fresh(string.ascii_letters, 34),
        "digitalocean": "dop_v1_" + fresh(_HEX, 64),
        "shopify": "shpat_" + fresh(_HEX, 32),
        "databricks": "dapi" + fresh(_HEX, 32),
        "linear": "lin_api_" + fresh(_ALNUM, 40),
        "notion": "ntn_" + fresh(string.digits, 11) + fresh(_ALNUM, 35),
        "postman": "PMAK-" + fresh(_HEX, 24) + "-" + fresh(_HEX, 34),
        "grafana": "glsa_" + fresh(_ALNUM, 32) + "_" + fresh(_HEX, 8),
        "vault": "hvs." + fresh(_ALNUM, 90),
        "terraform": fresh(_ALNUM, 14) + ".atlasv1." + fresh(_ALNUM, 64),
        "telegram": fresh("123456789", 9) + ":AA" + fresh(_ALNUM, 33),
        "doppler": "dp.pt." + fresh(_ALNUM, 43),
        "fly": "fo1_" + fresh(_ALNUM, 43),
        "new relic": "NRAK-" + fresh(string.ascii_uppercase + string.digits, 27),
        "planetscale": "pscale_tkn_" + fresh(_ALNUM, 43),
        "rubygems": "rubygems_" + fresh(_HEX, 48),
        "adafruit": "aio_" + fresh(_ALNUM, 28),
        "flutterwave": "FLWSECK_TEST-" + fresh(_HEX, 32) + "-X",
        "password": fresh(_ALNUM, 16),
        "api key": fresh(_HEX, 32),
        "client secret": fresh(_ALNUM, 40),
        "session key": fresh(_ALNUM, 24),
        "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + fresh(_ALNUM, 60),
    }


PLACES = (
    'api_token = "{}"\n',
    "export API_TOKEN={}\n",
    '{{"api_token": "{}"}}\n',
    "api_token: {}\n",
    "machine example.test login acme password {}\n",
    "curl -H 'X-Api-Token: {}' https://example.test\n",
)


def prove_planted(paper: Paper, folder: Path, home: Path) -> None:
    folder.mkdir()
    for kind, value in planted().items():
        for number, place in enumerate(PLACES):
            (folder / f"{kind} {number}.txt").write_text(place.format(value))
    findings, spent = scan(folder, home)
    planned, seen = len(list(folder.iterdir())), len({finding["path"] for finding in findings})
    paper.claim(
        "a fresh value of each of 34 kinds in 6 places is found",
        f"{seen} of {planned}, {spent:.1f} s",
        holds=seen == planned,
    )


def prove(paper: Paper, folder: Path) -> None:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as own:
        prove_planted(paper, Path(own) / "planted", home)
    if not (folder / "sources").is_dir():
        fetch_sources(folder / "sources")
    prove_tree(paper, "sources", folder / "sources", home)
    if not (folder / "npm" / "node_modules").is_dir():
        fetch_packages(folder / "npm")
    prove_tree(paper, "packages", folder / "npm" / "node_modules", home)


def main() -> None:
    paper = Paper("secret_trees", _ABOUT)
    if len(sys.argv) > 1:
        prove(paper, Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
            prove(paper, Path(folder))
    paper.write()


if __name__ == "__main__":
    main()
