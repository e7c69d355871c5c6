"""Gives every method one colour and one shape, the same in charts and tables of all pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32


@dataclass(frozen=True)
class Style:
    """colour: '#rrggbb'. shape: of Vega. sign: the character that looks like the shape."""

    colour: str
    shape: str
    sign: str


#: Dark enough for white pages (WCAG: 3 to 1 at least), and told apart by most kinds of colour vision.
_COLOURS: Final = (
    "#0072b2",
    "#c44e00",
    "#117733",
    "#882255",
    "#332288",
    "#9a6b00",
    "#aa4499",
    "#007a87",
)
_SHAPES: Final = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "cross": "✚",
    "triangle-down": "▼",
}
#: The methods that are compared most come first: each has a colour of its own.
_SHIPPED: Final = (
    *("tang", "pta", "prism", "adadpsyn", "hot_pate", "private_prediction"),
    *("private_evolution", "invisible_ink", "voting", "voting_nearest", "product_of_experts"),
    *("dp_opt", "esa", "ksa", "sga", "sga_histogram"),
)
#: Each next one differs from the last in both.
_STYLES: Final = [
    Style(_COLOURS[number % 8], *list(_SHAPES.items())[(number % 8 + number // 8) % 6])
    for number in range(48)
]
_KNOWN: Final = dict(zip(_SHIPPED, _STYLES, strict=False))
_OTHERS: Final = _STYLES[len(_SHIPPED) :]
#: What is no method: baselines and controls.
CONTROL: Final = Style("#767676", "circle", "○")


def style_of(mechanism: str) -> Style:
    """The style of a method; of one that is not shipped, by a hash of its name."""
    return _KNOWN.get(mechanism) or _OTHERS[crc32(mechanism.encode()) % len(_OTHERS)]


def signs_css() -> str:
    """The rules that put its sign before the name of a shipped method in tables whose rows say the mechanism last."""
    rules = []
    for mechanism, style in _KNOWN.items():
        row = f'tr[data-row$=" {mechanism}"]'
        rules.append(f'{row} > th::before {{ content: "{style.sign} "; color: {style.colour}; }}')
    return "\n".join(rules) + "\n"
