"""Whether the price of a model is known: by the table that comes with the extra ``models``.

The table is the one by which `models.py` prices each answer (pydantic-ai asks it): what is not known here has
no cost on record, and a budget in dollars could not hold it.
"""

from __future__ import annotations

from genai_prices import Usage, calc_price

__all__ = ["is_priced"]


def is_priced(model: str, provider: str | None) -> bool:
    """True if a call of this model can be priced.

    Args:
        model: the provider's name of it. provider: who offers it; None looks at every provider.
    """
    for known in (provider, None) if provider else (None,):
        try:
            calc_price(Usage(input_tokens=1, output_tokens=1), model, provider_id=known)
        except (LookupError, ValueError):
            continue
        return True
    return False
