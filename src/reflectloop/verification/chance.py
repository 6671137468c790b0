"""Draw the surroundings of extra runs at random, so that no patch can know them in advance."""

from __future__ import annotations

import random
import secrets

# No two have one offset, and none changes it within the year: a clock shows another time in each.
_ZONES = (
    *("Africa/Lagos", "Africa/Nairobi", "America/Bogota", "America/Manaus", "America/Phoenix", "Asia/Dhaka"),
    *("Asia/Dubai", "Asia/Kabul", "Asia/Karachi", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Manila", "Asia/Tokyo"),
    *("Asia/Yangon", "Australia/Darwin", "Pacific/Apia", "Pacific/Guam", "Pacific/Honolulu", "Pacific/Noumea"),
)
_LARGEST_SEED = 2**32 - 1
SOURCE: random.Random = secrets.SystemRandom()  # tests put one here that always draws the same
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def hash_seeds(number: int) -> list[dict[str, str]]:
    """Return different hash seeds, as the variables that set them."""
    return [{"PYTHONHASHSEED": str(SOURCE.randrange(_LARGEST_SEED) + 1)} for _ in range(number)]


def time_zones(number: int) -> list[dict[str, str]]:
    """Return different time zones, none of them the usual one, as the variables that set them."""
    chosen = SOURCE.sample(_ZONES, number)
    return [{"TZ": zone} for zone in chosen]


def days_between(low: int, high: int) -> float:
    """Return a number of days with a fraction, so that the time of the day is another one too."""
    return low + SOURCE.randrange((high - low) * 86400) / 86400


def program_path() -> str:
    """Return the path of a program that the name of a test runner is no part of."""
    return f"/opt/{_word()}/bin/{_word()}"


def home_folder() -> dict[str, str]:
    """Return a home folder that does not exist, as the variable that names it."""
    return {"HOME": f"/nowhere/{_word()}"}


def number(low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, both included."""
    return SOURCE.randint(low, high)


def _word() -> str:
    return "".join(SOURCE.choice(_LETTERS) for _ in range(6))
