"""The remaining budget of a call: a request is sent only if its maximum cost fits."""

from __future__ import annotations

from reflectloop.agents.backend import AgentLimits, TokenUsage
from reflectloop.agents.prices import Price


class LoopBudget:
    def __init__(self, bounds: AgentLimits, price: Price | None, model: str) -> None:
        self._bounds, self._price, self._model = bounds, price, model
        self.used = TokenUsage()

    @property
    def cost_usd(self) -> float | None:
        return self._price.cost(self.used) if self._price else None

    def spend(self, used: TokenUsage) -> None:
        self.used = self.used.plus(used)

    def lacks(self, input_tokens: int, reply_tokens: int) -> str | None:
        """Return why a request of this maximum size does not fit the budget, or None."""
        return self._lacks_tokens(input_tokens + reply_tokens) or self._lacks_money(input_tokens, reply_tokens)

    def _lacks_tokens(self, most: int) -> str | None:
        if self._bounds.tokens is None or self.used.tokens + most <= self._bounds.tokens:
            return None
        spent = f"{self.used.tokens:,} of {self._bounds.tokens:,} tokens are used"
        return f"{spent}, and the next call could take {most:,} more"

    def _lacks_money(self, input_tokens: int, reply_tokens: int) -> str | None:
        if self._bounds.usd is None:
            return None
        if self._price is None:
            return (
                f"the price of {self._model} is unknown, so the limit of {self._bounds.usd:g} USD cannot be enforced; "
                "add its price to the file that [cost] prices names"
            )
        spent, most = self._price.cost(self.used), self._price.most(input_tokens, reply_tokens)
        if spent + most <= self._bounds.usd:
            return None
        return f"{spent:.4f} of {self._bounds.usd:g} USD are spent, and the next call could cost {most:.4f} more"
