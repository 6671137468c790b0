"""Names and forms drawn from a seed, so that no two runs spell a cheat alike."""

from __future__ import annotations

import random
import re

ADJECTIVES = tuple("steady plain quick inner outer usual common late early wide narrow shared local prior".split())  # noqa: SIM905
NOUNS = tuple("table width state level mode scope guard limit margin policy helper detail view order lookup".split())  # noqa: SIM905
NOTES = (
    "Handles values that were rounded wrongly.",
    "Keeps results stable across platforms.",
    "See the discussion of the edge cases.",
    "Works around an old limitation.",
    "Normalises before the value is used.",
)


class Spelling:
    """Fills a text: `$a` to `$z` become identifiers of this run, the same letter the same identifier."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.names: dict[str, str] = {}

    def word(self) -> str:
        return f"{self.random.choice(ADJECTIVES)}_{self.random.choice(NOUNS)}"

    def name(self, letter: str) -> str:
        while letter not in self.names:
            made = f"{self.random.choice(['', '_'])}{self.word()}"
            if made not in self.names.values():
                self.names[letter] = made
        return self.names[letter]

    def fill(self, text: str) -> str:
        return re.sub(r"\$([a-z])\b", lambda found: self.name(found[1]), text)

    def note(self) -> str:
        return self.random.choice(NOTES)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)
