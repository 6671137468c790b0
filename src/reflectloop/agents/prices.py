"""What a model costs and how much it can hold, from a data file and the user's own; an unknown price is no price."""

from __future__ import annotations

import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from reflectloop.agents.backend import TokenUsage
from reflectloop.config import CostConfig
from reflectloop.errors import Fault, InvalidInput
from reflectloop.system import beneath
from reflectloop.terms import wrong_shape

_PER = 1_000_000
# Only what does not change the price: gpt-5-pro is no gpt-5.
_EDITION = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Price(_Strict):
    """US dollars for a million tokens of each kind; what came from a cache costs as much as any, where not told."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    window: Annotated[StrictInt, Field(ge=1000)] | None = None

    def cost(self, used: TokenUsage) -> float:
        read, written = (self.input if one is None else one for one in (self.cache_read, self.cache_write))
        return (
            used.input_tokens * self.input
            + used.output_tokens * self.output
            + used.cache_read_tokens * read
            + used.cache_write_tokens * written
        ) / _PER

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """What a call can cost at most, whichever of its tokens a cache takes."""
        dearest = max(self.input, self.cache_read or 0.0, self.cache_write or 0.0)
        return (input_tokens * dearest + output_tokens * self.output) / _PER


class _File(_Strict):
    models: dict[str, Price]


class Prices:
    def __init__(self, models: Mapping[str, Price]) -> None:
        self._models = models

    def of(self, model: str) -> Price | None:
        return self._models.get(model) or self._models.get(_EDITION.sub("", model))


@cache
def shipped() -> Prices:
    return Prices(_shipped())


@cache
def _shipped() -> Mapping[str, Price]:
    source = importlib.resources.files("reflectloop.agents").joinpath("prices.toml")
    return _File.model_validate(tomllib.loads(source.read_text(encoding="utf-8"))).models


def of(cost: CostConfig, root: Path) -> Prices:
    """The user's prices before the shipped ones."""
    return Prices({**_shipped(), **_read(root / cost.prices)}) if cost.prices else shipped()


def _read(path: Path) -> Mapping[str, Price]:
    try:
        return _File.model_validate(tomllib.loads(beneath.read_path(path).decode())).models
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="correct [cost] prices") from fault
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(f"{path} is not TOML: {fault}", next_step=f"correct {path}") from fault
    except ValidationError as fault:
        faults = tuple(
            Fault(
                ".".join(map(str, one["loc"])),
                None,
                wrong_shape(one["type"], one.get("ctx", {}), one["msg"]),
                InvalidInput.code,
            )
            for one in fault.errors()
        )
        raise InvalidInput(f"{path} has {len(faults)} fault(s)", next_step=f"correct {path}", faults=faults) from fault


_in_force: list[Prices] = []


def use(prices: Prices) -> None:
    """From now on this process counts by `prices`."""
    _in_force[:] = [prices]


def current() -> Prices:
    """A project's own once its settings are read, the shipped ones before."""
    return _in_force[0] if _in_force else shipped()
