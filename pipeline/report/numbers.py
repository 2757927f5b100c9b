"""How numbers are written on the page and in the terminal; a missing value is a dash."""

from __future__ import annotations

from datetime import datetime

MISSING = "–"


def number(value: float | None, digits: int, unit: str = "") -> str:
    """`value` with a fixed number of digits, so that columns align."""
    return MISSING if value is None else f"{value:.{digits}f}{unit}"


def percent(value: float | None) -> str:
    """A share (0 to 1) in per cent with one digit; never rounded up to 100 %, which means "all"."""
    if value is None:
        return MISSING
    text = f"{100 * value:.1f} %"
    return "99.9 %" if text == "100.0 %" and value < 1 else text


def signed(value: float | None, digits: int = 1) -> str:
    """With its sign; a true minus, as wide as the plus, and none where it rounds to zero."""
    if value is None:
        return MISSING
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]


def interval(least: float | None, most: float | None) -> str:
    """Two signed values, once if they print alike."""
    low, high = signed(least), signed(most)
    return low if low == high else f"{low} to {high}"


def spread(value: float | None, digits: int) -> str:
    """A standard deviation, nothing where there is none."""
    return "" if value is None else f"±{value:.{digits}f}"


def span(values: tuple[float, float] | None) -> str:
    """A range of shares in per cent."""
    if values is None:
        return MISSING
    low, high = (percent(value).removesuffix(" %") for value in values)
    return f"{low} %" if low == high else f"{low}–{high} %"


def moment(value: datetime | None) -> str:
    return MISSING if value is None else f"{value:%Y-%m-%d %H:%M}"
