"""Measure how much a run of letters resembles words, by pairs of letters and by a list of words used in programs."""

from __future__ import annotations

import itertools

from reflectloop.system import patterns

# Bits per pair of letters in the words of the standard library: row, first letter; column, second letter.
_COST = (
    "65448758596343959343667769",
    "35564788458367469546499859",
    "37663793594467279563589979",
    "47652679399587479556589979",
    "57436568798553767334867579",
    "48664379299476379455498969",
    "58772765499575579447589988",
    "28772899398666389565599979",
    "55455559998452459543959695",
    "38663977495677369757386879",
    "57762658389485679646695969",
    "38752789398487379855579949",
    "25862889398657439856599969",
    "48444538496686479843669979",
    "65447669696442549355465799",
    "38773786497488349354598959",
    "79778787779575797559187899",
    "37652769397656479544678969",
    "58573775497677559843497969",
    "48662794399677469445687958",
    "54564569599442649343899899",
    "27781789399867579767888999",
    "38653784398674479447877799",
    "56453596499658639663779559",
    "66665778599655639744877857",
    "49861799399778479767898963",
)
WORDS = frozenset(
    """
    abc about access account action active add address admin agent alert alias alice all allow alpha amazon android
    answer any api app apple application apply archive args array asset async attr attribute auth author auto autumn
    available aws azure back backend bad bar base basic batch battery baz bean bearer before best beta big bill bin
    bind bit black blank block blog blue bob body book bool boot bot bottom box branch bravo break bridge broken
    browser bucket buffer bug build bundle business button bytes cache call callback camel card cart case cat cell
    cert certificate chain change channel char charlie chat check child choice city claim class clear click client
    clock clone close cloud cluster code collection color column com command comment commit common company compare
    complete component compute con condition conf config confirm connect connection console const contact container
    content context control controller convert cookie copy core correct count counter country course cover create
    cred credential credentials cron crypt crypto csrf ctx current custom customer cycle daemon daily dark dash data
    database date day debug decode decrypt default define delete delta demo deploy desc design dest detail dev
    developer device dict diff digest dir directory disable disabled display dns doc docker document does dog domain
    done dot down download draft dragon driver drop dry dummy dynamic echo edge edit editor element else email empty
    enable enabled encode encrypt encrypted end endpoint engine english enter entry enum env environment equal error
    event every exact example exec existing exit expect expected expire expired expires explicit export expression
    ext external extra factory fail failed fake false fast feature feed fetch few field file filename filter final
    find first fish fixed flag flash flat float flow folder font foo football footer for force foreign form format
    forward four frame free friend friendly from full func function future game gate gateway generate generated
    generator generic get git github gitlab given global good google grant graph green grid group guest guid handle
    handler hard has hash head header health hello help helper here hidden high history hold home hook horse host
    hot hour house html http https human hunter icon ident identifier ignore image import inactive include index
    info init inline inner input insert inside install instance int integration internal interval invalid invite
    item iter java job join json jwt keep kernel key keys kind known kube label lang language large last later
    launch layer layout lead left legacy length less let letmein letter level lib library license light like limit
    line link linux list listen little live load local localhost location lock log logger login logo logout long
    lookup loop low lower lucene lumber machine magic mail main make manage manager manual map mark market markup
    master match matrix max may mean media member memory menu merge message meta method middle migrate min mine
    minute mirror missing mobile mock mode model modern modify module mongo monitor monkey month more most mount
    move msg multi music must mutex mvc mysql name namespace native nav need nested net network never new news next
    nginx nice node nonce none normal not note notes notice notify null num number oauth obj object off offset old
    once one only open operator option options oracle order org origin other out outer output over override
    overwrite own owner pack package page pair panel parallel param parameter params parent parse parser part
    partner pass passcode passed passphrase passport passwd password passwords past patch path pattern pay payload
    payment peer people perm permission permissions person phone photo php pick ping pipe pipeline place plain plan
    play player plugin point policy pool port portal position post postgres power prefix premium prepare present
    press prev preview previous price primary princess principal print prior private prod product production profile
    program progress project prompt prop properties property protected proto protocol provider proxy public publish
    pull purchase push put pwd python quality query queue quick quiet quote qwerty random range rate raw read reader
    ready real really reason receive record red redirect redis ref refresh regex region register registry regular
    reject release remote remove rename render repeat replace reply repo report repository request required res
    reset resource response rest restore result results retry return returns reverse review right ring role room
    root round route router row rsa ruby rule rules run runner safe salt same sample sandbox save scan schema scheme
    scope score screen script search second secret secrets section secure security seed select selector self send
    sender sensitive sep sequence series server service session set setting settings setup share shared shell ship
    shop short show side sign signature signed silent simple single site size skip slack sleep slot slow small snake
    snapshot social socket some something sort source space span spec special speed spring sql src ssh ssl stack
    staff stage staging standard staple star start started state static status step stop storage store story str
    stream strict string strong struct stub style sub subject submit success such suffix suite sum summer sunshine
    super supply supported switch symbol sync syntax system tab table tag target task team temp template temporary
    tenant term test tester testing tests text than that the their them theme then there these they thing this
    thread three through ticket tier tiger time timeout timestamp tip title tls tmp today todo token tokens tool top
    topic total trace track trade traffic train transfer transport tree trigger true trust try twitter two type
    types ubuntu unable unauthorized under union unique unit unknown unset until update updated upload upper uri url
    usage use used user username users using utf util utils uuid val valid validate validator value values var
    variable vault vector vendor verify version very via video view virtual visible wait walk warn warning was watch
    way weak web webhook week welcome well what when where which while white who why wide widget width wiki wild
    will window winter with without word work worker workflow workspace world wrap wrapper write writer wrong www
    xml yaml year yellow yes yet you your zero zip zone
    """.split()
)
STRANGE = 4.7  # above this, letters do not resemble words
_RUN = patterns.lazy(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PAIRS = {(first + 97, second + 97): int(_COST[first][second]) for first in range(26) for second in range(26)}


def strangeness(value: bytes) -> float:
    """Return the mean bits per pair of letters: about 4 for words, about 6 for random letters."""
    low = value.lower()
    costs = list(filter(None, map(_PAIRS.get, itertools.pairwise(low))))
    return sum(costs) / len(costs) if costs else 0.0


def split_words(value: bytes) -> list[str]:
    """Split an identifier into words: `newAPIKey_2` is new, api, key."""
    return [run.decode().lower() for run in _RUN.findall(value)]


def wordiness(value: bytes) -> float:
    """Return the share of the letters that belong to known words."""
    runs = split_words(value)
    letters = sum(map(len, runs))
    return sum(_covered(run) for run in runs) / letters if letters else 0.0


def _covered(run: str) -> int:
    """Return the number of letters of a run that known words cover, taking the longest word from the left."""
    place = covered = 0
    while place < len(run):
        size = next((size for size in range(min(14, len(run) - place), 2, -1) if run[place : place + size] in WORDS), 0)
        covered += size
        place += size or 1
    return covered
