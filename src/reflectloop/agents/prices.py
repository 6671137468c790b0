"""Prices and context windows of models, from a built-in file and the user's. An unknown price is None, not zero."""

from __future__ import annotations

import importlib.resources
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
from reflectloop.system.patterns import lazy
from reflectloop.terms import wrong_shape

_PER = 1_000_000
# Only suffixes that do not change the price: gpt-5-pro is not gpt-5.
_EDITION = lazy(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Price(_Strict):
    """US dollars per million tokens of each kind; without a cache price, cached tokens cost as much as input."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    window: Annotated[StrictInt, Field(ge=1000)] | None = None

    def cost(self, used: TokenUsage) -> float:
        read, written = (self.input if price is None else price for price in (self.cache_read, self.cache_write))
        return (
            used.input_tokens * self.input
            + used.output_tokens * self.output
            + used.cache_read_tokens * read
            + used.cache_write_tokens * written
        ) / _PER

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """Return the maximum cost of a call, however many of its tokens are cached."""
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
def builtin_prices() -> Prices:
    return Prices(_builtin_models())


@cache
def _builtin_models() -> Mapping[str, Price]:
    source = importlib.resources.files("reflectloop.agents").joinpath("prices.toml")
    return _File.model_validate(tomllib.loads(source.read_text(encoding="utf-8"))).models


def load_prices(cost: CostConfig, root: Path) -> Prices:
    """Return the built-in prices, overridden by the user's."""
    return Prices({**_builtin_models(), **_read(root / cost.prices)}) if cost.prices else builtin_prices()


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
                ".".join(map(str, error["loc"])),
                None,
                wrong_shape(error["type"], error.get("ctx", {}), error["msg"]),
                InvalidInput.code,
            )
            for error in fault.errors()
        )
        raise InvalidInput(f"{path} has {len(faults)} fault(s)", next_step=f"correct {path}", faults=faults) from fault


_active: list[Prices] = []


def use(prices: Prices) -> None:
    """Use `prices` in this process from now on."""
    _active[:] = [prices]


def current() -> Prices:
    """Return the project's prices once its settings are read, the built-in ones before."""
    return _active[0] if _active else builtin_prices()
