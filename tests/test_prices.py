"""What models cost: by name, by the user's own file, and never by a guess."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fileops_workspace import ROOT
from reflectloop.agents import prices
from reflectloop.agents.backend import TokenUsage
from reflectloop.config import CostConfig
from reflectloop.errors import InvalidInput


def test_a_model_is_found_by_its_name_without_a_date_but_not_a_similar_one() -> None:
    known = prices.builtin_prices()
    sonnet = known.of("claude-sonnet-4-5")
    assert sonnet is not None
    assert known.of("claude-sonnet-4-5-20250929") == known.of("claude-sonnet-4-5-latest") == sonnet
    assert sonnet.window == 200_000
    assert sonnet.cost(TokenUsage(1_000_000, 100_000, 1_000_000, 1_000_000)) == pytest.approx(3 + 1.5 + 0.3 + 3.75)
    assert sonnet.most(1_000_000, 0) == pytest.approx(3.75)
    assert known.of("gpt-5-2025-08-07") is known.of("gpt-5")
    for name in ("gpt-5-pro", "claude", "", "gpt-5-mini-something", "qwen3"):
        assert known.of(name) is None


def test_the_users_prices_override_single_models(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[models.gpt-5]\ninput = 2\noutput = 4\n[models."qwen3:8b"]\ninput = 0\noutput = 0\n'
    )
    known = prices.load_prices(CostConfig(prices=Path("mine.toml")), tmp_path)
    mine, free = known.of("gpt-5"), known.of("qwen3:8b")
    assert mine is not None
    assert mine.cost(TokenUsage(1_000_000, 1_000_000, 1_000_000)) == pytest.approx(
        8
    )  # a cache not told of is not cheaper
    assert free is not None
    assert free.cost(TokenUsage(10**9, 10**9)) == 0
    assert known.of("claude-opus-4-1") == prices.builtin_prices().of("claude-opus-4-1")
    assert prices.load_prices(CostConfig(), tmp_path) is prices.builtin_prices()


def test_an_invalid_price_file_is_refused_with_every_fault(tmp_path: Path) -> None:
    settings = CostConfig(prices=Path("mine.toml"))
    with pytest.raises(InvalidInput, match="cannot read"):
        prices.load_prices(settings, tmp_path)
    (tmp_path / "mine.toml").write_text("[models")
    with pytest.raises(InvalidInput, match="is not TOML"):
        prices.load_prices(settings, tmp_path)
    (tmp_path / "mine.toml").write_text("[models.a]\ninput = -1\noutput = 'x'\nother = 1\n")
    with pytest.raises(InvalidInput) as caught:
        prices.load_prices(settings, tmp_path)
    assert [one.path for one in caught.value.faults] == ["models.a.input", "models.a.output", "models.a.other"]


def test_the_prices_in_the_page_on_agents_can_be_used(tmp_path: Path) -> None:
    (text,) = re.findall(r"```TOML\n(.*?)```", (ROOT / "docs/agents.md").read_text(), re.DOTALL)
    (tmp_path / "prices.toml").write_text(text)
    found = prices.load_prices(CostConfig(prices=Path("prices.toml")), tmp_path).of("qwen3:8b")
    assert found is not None
    assert found.window == 32768
