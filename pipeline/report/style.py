"""One colour, marker and dash per method, the same everywhere, fit for colour-blind readers and dark pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """How something is drawn: `name` is its CSS variable (`--m-<name>`), `light` and `dark` its values."""

    name: str
    light: str
    dark: str
    marker: str = ""
    dash: str = ""

    @property
    def css(self) -> str:
        """The colour as CSS, following the page's theme."""
        return f"var(--m-{self.name})"


# Okabe and Ito's palette, darkened where it would be faint on white; markers and dashes repeat the distinction.
_KNOWN = {
    "control": Style("control", "#6b7280", "#a3abb8", "_", "--"),
    "spot": Style("spot", "#0072b2", "#56b4e9", "o", "-"),
    "spot-gamma": Style("spot-gamma", "#aa4a8c", "#e39bc8", "D", "--"),
    "spiffy": Style("spiffy", "#c98500", "#f0b93a", "s", "-"),
    "chain": Style("chain", "#009e73", "#2cc998", "^", "-."),
    "tree": Style("tree", "#d55e00", "#ff8a4c", "v", ":"),
}
_OTHERS = (
    Style("other-1", "#3f7fd0", "#8fbcff", "o", "--"),
    Style("other-2", "#7a6a2f", "#cdbb73", "s", "-."),
    Style("other-3", "#7b52ab", "#c3a5ec", "D", ":"),
    Style("other-4", "#a8324a", "#f08aa0", "^", "-"),
)
INK = "#0a0b0c"  # stands for the page's text colour in a figure
RULE = "#0d0e0f"  # stands for the page's line colour

# Parts of a bar: greys and one teal, so that no part looks like a method.
DEEP = Style("deep", "#4a5a70", "#93a3b8")
TEAL = Style("teal", "#12897d", "#4fd1c1")
PALE = Style("pale", "#c3ccd8", "#4b5767")
_ALL = (*_KNOWN.values(), *_OTHERS, DEEP, TEAL, PALE)


def assign_styles(methods: list[str]) -> dict[str, Style]:
    """Style of every method; those without one of their own share the spare ones in order of their names."""
    unknown = sorted(set(methods) - set(_KNOWN))
    spare = {method: _OTHERS[index % len(_OTHERS)] for index, method in enumerate(unknown)}
    return {method: _KNOWN.get(method) or spare[method] for method in methods}


def css_variables(theme: str) -> str:
    """CSS declarations of all method colours for the theme "light" or "dark"."""
    return " ".join(f"--m-{style.name}: {getattr(style, theme)};" for style in _ALL)


def themed(svg: str) -> str:
    """Replace the literal colours of a figure by the page's own, so that it follows a light or dark page."""
    for style in _ALL:
        svg = svg.replace(style.light, style.css)
    return svg.replace(INK, "currentColor").replace(RULE, "var(--rule)")


METHOD_ORDER = tuple(_KNOWN)


def method_rank(method: str) -> tuple[int, str]:
    """Sort key that puts the control first, then the methods of the SPOT paper, then the rest by name."""
    return (METHOD_ORDER.index(method) if method in METHOD_ORDER else len(METHOD_ORDER), method)
