"""Makes the pictures of the first screens in docs/figures from the committed results: make pictures

The board in a terminal becomes an SVG (rich), the home page of the site two PNG images (chromium and chromedriver).
"""

import base64
import io
import os
import re
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import dpicl
from dpicl.leaderboards.model.board import choose_part
from dpicl.leaderboards.render.board_view import board_blocks
from dpicl.program import main
from dpicl.tables.console import to_text, width

FIGURES = Path(__file__).resolve().parent / "figures"
#: Tasks for which one terminal has room.
SHOWN = ("mit_d", "dbpedia", "agnews_codes", "trec")
#: Pixels of the windows: width and height.
WINDOWS = {"home-wide": (1280, 800), "home-narrow": (390, 844)}


def terminal(suite: str) -> str:
    """The first screen of a board, in the fonts that the reader has: nothing is loaded from elsewhere."""
    os.environ["COLUMNS"] = "110"
    console = Console(record=True, width=width(), file=io.StringIO())
    board = choose_part(dpicl.board(suite, results="results").board, SHOWN)
    console.print(Text.from_ansi(to_text(board_blocks(board, full=False), True)))
    return re.sub(
        r"@font-face \{.*?\}\n",
        "",
        console.export_svg(title=f"dpicl board {suite} --task {','.join(SHOWN)}"),
        flags=re.DOTALL,
    )


def photograph(page: Path) -> None:
    """The first screen of a page, in 64 colours."""
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or ""
    with webdriver.Chrome(options, Service(shutil.which("chromedriver"))) as browser:
        for name, (wide, high) in WINDOWS.items():
            size = {"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(page.as_uri())
            shot = base64.b64decode(browser.get_screenshot_as_base64())
            Image.open(io.BytesIO(shot)).convert("RGB").quantize(64).save(
                FIGURES / f"{name}.png", optimize=True
            )


if __name__ == "__main__":
    (FIGURES / "board.svg").write_text(terminal("record"), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        main(["board", "all", "--html", folder])
        photograph(Path(folder) / "index.html")
