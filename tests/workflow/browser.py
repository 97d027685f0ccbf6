"""Pages of a site opened in headless Chromium, and what it found on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlparse

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.system_packages import require

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
DESKTOP, TABLET, PHONE = (1280, 900), (768, 1024), (390, 844)
_SURVEY = (Path(__file__).parent / "survey.js").read_text()


@dataclass(frozen=True)
class View:
    """One page at one width in one colour scheme.

    Attributes:
        scripts: whether they ran.
        complaints: console errors and warnings, uncaught errors, dialogs, and files that could not be loaded.
        requests: every address that was asked for, the page's own first.
        width: of the content, in CSS pixels, with everything opened that can be opened.
        figures: name, width, height and whether something is drawn, of every figure.
        faint: texts whose contrast with what lies behind them is below 4.5, with the contrast.
        nameless: controls and pictures without a name for a screen reader.
        links: the targets of all links.
        barriers: rules of axe-core that the page breaks, each with the first element that does.
    """

    path: Path
    size: tuple[int, int]
    scheme: str
    scripts: bool = True
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    width: int = 0
    figures: list[dict[str, Any]] = field(default_factory=list)
    faint: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    barriers: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.path.name}, {self.size[0]} px, {self.scheme}{'' if self.scripts else ', without JavaScript'}"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window and without a network."""
    path = require("chromium", command="chromium", alternatives=("google-chrome", "chromium-browser"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def window(
    browser: Browser, size: tuple[int, int] = DESKTOP, scheme: str = "light", *, scripts: bool = True
) -> Iterator[Page]:
    """An empty page of a size (width, height in CSS pixels) and a colour scheme, offline."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        offline=True,
        java_script_enabled=scripts,
        reduced_motion="reduce",
    )
    try:
        yield context.new_page()
    finally:
        context.close()


def survey(browser: Browser, paths: list[Path]) -> list[View]:
    """Look at every page on a desk, a tablet and a phone, light and dark; on desk and phone without scripts, too."""
    scripted = [(size, scheme, True) for size in (DESKTOP, TABLET, PHONE) for scheme in ("light", "dark")]
    views = []
    for size, scheme, scripts in [*scripted, (DESKTOP, "light", False), (PHONE, "dark", False)]:
        with window(browser, size, scheme, scripts=scripts) as page:
            views += [_view(page, path, size, scheme, scripts) for path in paths]
    return views


def _view(page: Page, path: Path, size: tuple[int, int], scheme: str, scripts: bool) -> View:
    complaints: list[str] = []
    requests: list[str] = []

    def dialog(shown: Any) -> None:
        complaints.append(f"dialog: {shown.message}")
        shown.dismiss()

    listeners = {
        "console": lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": dialog,
        "requestfailed": lambda request: complaints.append(f"not loaded: {request.url}"),
        "request": lambda request: requests.append(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]
    page.goto(path.as_uri())
    found = page.evaluate(_SURVEY)
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    barriers = _barriers(page) if scripts and size != TABLET else []
    return View(path, size, scheme, scripts, complaints, requests, **found, barriers=barriers)


def _barriers(page: Page) -> list[str]:
    """What axe-core finds on the page as it stands, with everything open; contrast is left to the survey."""
    found = Axe().run(page, options={"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": False}}})
    return [
        f"{broken['id']} ({broken['impact']}): {broken['nodes'][0]['html'][:120]}"
        for broken in found.response["violations"]
    ]


def dead_links(view: View) -> list[str]:
    """Links of a page to a file that is not there, or to a place that the file does not have."""
    return [link for link in view.links if not _resolves(link)]


def _resolves(link: str) -> bool:
    address, fragment = urldefrag(link)
    parts = urlparse(address)
    if parts.scheme in ("http", "https"):
        return bool(parts.netloc)
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or not path.is_file():
        return False
    return not fragment or f'id="{unquote(fragment)}"' in path.read_text()
