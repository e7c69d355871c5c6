"""Every chart, drawn by matplotlib: as SVG within a page, or as a file for a paper.

The SVG of a page has no style, script, address or id: its colours are variables of the page's style sheet, for light
and dark ground, and its description says its numbers in words. Names are untrusted: none is read as mathematics, and
control characters are written out. The same numbers are drawn to the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from markupsafe import Markup
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import context
from matplotlib.transforms import ScaledTranslation

from dpicl.core.printable import visible
from dpicl.leaderboards.model.text import epsilon_text

#: Width and height of the plot of one task on a page, in pixels.
WIDTH, HEIGHT = 460, 300

#: A chart shows so many labels, the best; where there are more it says so. Its table has them all.
MOST_LABELS = 40

#: Colours of lines that belong to no series.
INK, QUIET = "#222222", "#666666"
_GROUND, _LINE = "#ffffff", "#dddddd"
#: Behind rows that may be the best.
GOOD = "#e8f5ea"
#: 7 colours that every kind of colour vision tells apart (after Okabe and Ito 2008), and 8 shapes: 56 looks.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
_SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")
_VARIABLES = {colour: f"var(--c{i})" for i, colour in enumerate(_COLOURS)} | {
    _GROUND: "var(--ground)",
    INK: "var(--ink)",
    QUIET: "var(--quiet)",
    _LINE: "var(--line)",
    GOOD: "var(--good)",
}

#: Mechanisms that ship with the package -> the number of their look, on every page of every suite. New ones come last.
_KNOWN = (
    *("tang", "pta", "prism", "voting", "embedding_centroids", "private_prediction", "public_demonstrations"),
    *("hot_pate", "invisible_ink", "private_evolution", "dp_opt", "product_of_experts", "voting_nearest"),
    *(
        "esa",
        "ksa",
        "sga",
        "sga_histogram",
        "esa_public",
        "sga_public",
        "ldp_labels",
        "voting_once",
        "voting_one_sample",
    ),
)

_BOTH = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "dpicl",
    "pdf.fonttype": 42,
    "axes.grid": True,
    "grid.color": _LINE,
    "legend.frameon": False,
    "text.color": INK,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), QUIET),
    **dict.fromkeys(("axes.spines.left", "axes.spines.right", "axes.spines.top"), False),
}
#: Charts are made and drawn within one of these: sizes in pixels of a page, or in points of a printed one.
on_page = context(["default", {**_BOTH, "font.size": 12, "lines.markersize": 8, "lines.linewidth": 1.6}])
in_print = context(["default", {**_BOTH, "font.size": 7, "lines.markersize": 4, "lines.linewidth": 1.1}])


@dataclass(frozen=True)
class ChartPoint:
    """One marker. at: ε, or the number of a release. low, high: its interval, None without one. words: says it all.

    hollow: an outline alone. joined: by a line to the point before it. sign: stands above its interval. names: of row
    and mechanism, which filters look for; "" where none does. label: of its line, in a legend.
    """

    at: float
    value: float
    low: float | None
    high: float | None
    words: str
    hollow: bool = False
    joined: bool = True
    sign: str = ""
    names: str = ""
    label: str = ""


@dataclass(frozen=True)
class Reference:
    """A line across, with a band for its interval. dashes: as matplotlib writes them."""

    name: str
    value: float
    low: float
    high: float
    dashes: Any


#: The number of its look, and the points, of every line.
Series = Sequence[tuple[int, Sequence[ChartPoint]]]


class Chart(Figure):
    """A figure with words. caption: what it is about; words: one for each mark. Sizes are in pixels or points."""

    def __init__(self, width: float, height: float, caption: str, layout: Literal["constrained"] | None = None) -> None:
        super().__init__(figsize=(width / 72, height / 72), dpi=72, layout=layout)
        self.caption = visible(caption)
        self.words: list[str] = []
        self._data: list[tuple[str | None, dict[str, str]]] = []

    def say(self, words: str, **data: str) -> str:
        """Keeps the words of a mark, and returns the id by which `markup` finds it. data: as for `part`."""
        self.words.append(visible(words))
        self._data.append((self.words[-1], data))
        return f"mark-{len(self._data) - 1}"

    def part(self, **data: str) -> str:
        """The id of something that belongs to a row: a filter of the page finds it by these data attributes."""
        self._data.append((None, data))
        return f"mark-{len(self._data) - 1}"

    def box(self, left: float = 54, bottom: float = 52) -> Axes:
        """Axes with these margins."""
        width, height = self.bbox.size
        return self.add_axes((left / width, bottom / height, 1 - (left + 16) / width, 1 - (bottom + 16) / height))

    def file(self, kind: str) -> bytes:
        """The content of a file (pdf, png or svg). It has no date: the same chart is the same bytes."""
        content = io.BytesIO()
        undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a character that the font lacks
            self.savefig(content, format=kind, metadata=undated, dpi=300)
        return content.getvalue()

    def markup(self) -> Markup:
        """The chart within a page."""
        root = fromstring(self.file("svg"))
        svg = Element("svg", {"class": "plot", "viewBox": root.get("viewBox", ""), "role": "img"})
        SubElement(svg, "title").text = self.caption
        SubElement(svg, "desc").text = f"{self.caption}. {'; '.join(self.words)}."
        self._copy(root, svg, {node.get("id", ""): node for node in root.iter(f"{_SVG}path")})
        return Markup(tostring(svg, encoding="unicode"))

    def _copy(self, source: Element, to: Element, shapes: Mapping[str, Element]) -> None:
        """Paths and texts alone. Shapes used by reference become paths; a group stays where it is a mark with words."""
        for node in source:
            kind = node.tag.removeprefix(_SVG)
            if kind == "g":
                group, number = to, node.get("id", "").partition("mark-")[2]
                if number:
                    words, data = self._data[int(number)]
                    group = SubElement(to, "g", {f"data-{name}": visible(one) for name, one in data.items() if one})
                    if words is not None:
                        SubElement(group, "title").text = words
                self._copy(node, group, shapes)
            elif kind == "text":
                placed = {name: _short(node.get(name, "")) for name in ("x", "y", "transform")}
                if placed["transform"].startswith("rotate(-0 "):
                    del placed["transform"]
                SubElement(to, "text", placed | _looks(node)).text = node.text
            elif kind == "path":
                SubElement(to, "path", {"d": _short(node.get("d", ""))} | _looks(node))
            elif kind == "use":
                shape, at = shapes[node.get(_LINK, "")[1:]], f"translate({node.get('x')} {node.get('y')})"
                d = {"d": _short(shape.get("d", "")), "transform": _short(at)}
                SubElement(to, "path", d | _looks(shape) | _looks(node))

    def series(self, axes: Axes, series: Series, place: Callable[[float], float]) -> None:
        """Lines with markers and intervals. Those that share a place stand side by side."""
        apart = min(9.0, 50 / max(len(series), 1)) * rcParams["lines.markersize"] / 8
        for i, (style, points) in enumerate(series):
            shift = ScaledTranslation(apart * (i - (len(series) - 1) / 2) / 72, 0, self.dpi_scale_trans)
            how = {"color": look(style)["color"], "transform": axes.transData + shift}
            for before, one in pairwise(points):
                if one.joined:
                    line = axes.plot([place(before.at), place(one.at)], [before.value, one.value], **how)
                    line[0].set_gid(self.part(row=one.names))
            for one in points:
                x, ends = place(one.at), [end for end in (one.low, one.high) if end is not None]
                data = {"row": one.names, "epsilon": epsilon_text(one.at) if one.names else ""}
                axes.plot([x] * len(ends), ends, alpha=0.6, **how, gid=self.part(**data))
                axes.plot([x], [one.value], **how | look(style, one.hollow), gid=self.say(one.words, **data))
                axes.text(x, max([one.value, *ends]), one.sign, transform=how["transform"], ha="center", va="bottom")
                axes.update_datalim([(x, y) for y in (one.value, *ends)])  # which is not done for what is shifted

    def reference(self, axes: Axes, one: Reference) -> Line2D:
        """A line across, and its band."""
        axes.axhspan(one.low, one.high, color=INK, alpha=0.07, linewidth=0)
        mark = self.say(f"{one.name}: {one.value:.3f} [{one.low:.3f}, {one.high:.3f}]")
        return axes.axhline(
            one.value, color=INK, linestyle=one.dashes, gid=mark, linewidth=0.75 * rcParams["lines.linewidth"]
        )

    def key(self, lines: Sequence[Line2D], names: Sequence[str], **where: Any) -> None:
        """The legend. Names are set afterwards: matplotlib leaves out one that begins with an underscore."""
        found = self.legend(lines, ["-"] * len(lines), **where)
        for text, name in zip(found.get_texts(), names, strict=True):
            text.set_text(cut(name, 60))


_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_LEFT_TO_THE_PAGE = ("font", "stroke-line", "stroke-dashoffset")


def _looks(node: Element) -> dict[str, str]:
    """The style of an element as attributes, with the page's colours: its policy forbids a style of our own."""
    pairs = [part.split(": ", 1) for part in node.get("style", "").split("; ") if part]
    return {name: _VARIABLES.get(value, value) for name, value in pairs if not name.startswith(_LEFT_TO_THE_PAGE)}


def _short(numbers: str) -> str:
    """Coordinates to a tenth of a pixel, in one line."""
    return " ".join(re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), numbers).split())


def cut(text: str, longest: int) -> str:
    """A name that has room."""
    whole = visible(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"


#: The look of the reference baselines, which no row has.
BASELINE = 27


def fixed_looks(labels: Iterable[str]) -> dict[str, int]:
    """Label -> number of its look. That of a shipped mechanism never changes; others have one by a hash of their name,
    or the next that is free."""
    wanted = {*labels}
    found = {name: i for i, name in enumerate(_KNOWN)}
    number = len(_COLOURS) * len(_SHAPES)
    for label in sorted(wanted - found.keys()):
        start = int.from_bytes(hashlib.sha256(label.encode()).digest()[:4])
        places = [len(_KNOWN) + (start + i) % (number - len(_KNOWN)) for i in range(number - len(_KNOWN))]
        taken = {*found.values(), BASELINE}
        found[label] = next((place for place in places if place not in taken), places[0])
    return {label: found[label] for label in sorted(wanted)}


class Epsilons:
    """From an ε to its place on an axis: its logarithm, and a gap beside the others for 0 and infinity."""

    def __init__(self, epsilons: Iterable[float]) -> None:
        self.all = sorted(set(epsilons))
        inner = [one for one in self.all if 0 < one < math.inf] or [1.0]
        self.first, self.last = inner[0], inner[-1]
        self.gap = 0.18 * (math.log10(self.last) - math.log10(self.first)) or 0.5

    def __call__(self, epsilon: float) -> float:
        if math.isinf(epsilon):
            return math.log10(self.last) + self.gap
        return math.log10(max(epsilon, self.first)) if epsilon > 0 else math.log10(self.first) - self.gap

    def label(self, axes: Axes, name: str) -> None:
        """Ticks at these ε, and the axis's name."""
        places = [self(one) for one in self.all]
        low, high = min(places, default=0.0), max([*places, self(self.last)])
        room = 0.1 * (high - low) or 1.0
        axes.set(xticks=places, xticklabels=[epsilon_text(one) for one in self.all], xlim=(low - room, high + room))
        axes.set_xlabel(f"{name} (logarithmic)")


def look(style: int, hollow: bool = False) -> dict[str, Any]:
    """How markers of a series look; its lines have the same colour."""
    colour = _COLOURS[style % len(_COLOURS)]
    about = {"markerfacecolor": _GROUND if hollow else colour, "markeredgewidth": 1.3, "linestyle": "none"}
    return {"color": colour, "marker": _SHAPES[style % len(_SHAPES)], **about}
