"""Gives every method one colour and one shape, the same in charts and tables of all pages."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
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
_STYLES: Final = [
    Style(colour, shape, sign) for (shape, sign), colour in product(_SHAPES.items(), _COLOURS)
]
#: Methods that are compared most have a colour of their own, and neighbours another shape too.
_KNOWN: Final = {
    "tang": Style(_COLOURS[0], "circle", "●"),
    "pta": Style(_COLOURS[1], "square", "■"),
    "prism": Style(_COLOURS[2], "diamond", "◆"),
    "adadpsyn": Style(_COLOURS[3], "triangle-up", "▲"),
    "hot_pate": Style(_COLOURS[4], "cross", "✚"),
    "private_prediction": Style(_COLOURS[5], "triangle-down", "▼"),
    "private_evolution": Style(_COLOURS[6], "circle", "●"),
    "invisible_ink": Style(_COLOURS[7], "square", "■"),
    "voting": Style(_COLOURS[0], "triangle-up", "▲"),
    "voting_nearest": Style(_COLOURS[1], "triangle-up", "▲"),
    "product_of_experts": Style(_COLOURS[2], "triangle-down", "▼"),
    "dp_opt": Style(_COLOURS[3], "circle", "●"),
    "esa": Style(_COLOURS[4], "square", "■"),
    "ksa": Style(_COLOURS[5], "diamond", "◆"),
    "sga": Style(_COLOURS[6], "cross", "✚"),
    "sga_histogram": Style(_COLOURS[7], "triangle-down", "▼"),
}
_OTHERS: Final = [style for style in _STYLES if style not in _KNOWN.values()]
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
