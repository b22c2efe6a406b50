"""JupyterLab in a headless Chromium, driven as a trainee would: log in, open a notebook, Run All, press buttons, look.

The hub's configuration exposes ``window.jupyterapp``, which says what the page does not: whether a kernel is idle, which cells
ended in an error. JupyterLab does not paint cells that are off the screen, so texts are read with textContent.
"""

import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
FRONT = "const front = window.jupyterapp.shell.currentWidget;"
STATE = f"""() => {{ {FRONT}
  const session = front && front.sessionContext, kernel = session && session.session && session.session.kernel;
  const dialog = document.querySelector('.jp-Dialog .jp-Dialog-content');
  const cells = front && front.content && front.content.widgets || [];
  return {{
    kernel: kernel ? kernel.name : '', idle: !!kernel && session.isReady && kernel.connectionStatus == 'connected'
      && kernel.status == 'idle', dialog: dialog ? dialog.innerText : '',
    waiting: cells.filter(c => c.promptNode && c.promptNode.textContent.includes('*')).length,
    done: cells.filter(c => c.model.type == 'code' && c.model.executionCount).length}} }}"""
ERRORS = f"""() => {{ {FRONT} return front.content.widgets.map((c, i) => c.model.outputs
  ? c.model.outputs.toJSON().filter(o => o.output_type == 'error')
      .map(o => `cell ${{i}}: ${{o.ename}}: ${{o.evalue}}`) : []).flat() }}"""
SHOWN = """() => [...document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell-outputArea')].map(area => {
  const copy = area.cloneNode(true); copy.querySelectorAll('style, script').forEach(each => each.remove());
  return copy.textContent }).join('\\n')"""


@contextmanager
def browser():
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS, headless=True)
        try:
            yield found
        finally:
            found.close()


class Lab:
    """One user in a browser of their own (no cookie is shared)."""

    def __init__(self, browser, url: str, user: str, dark: bool = False):
        self.url, self.user, self.browser = url, user, browser
        context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="dark" if dark else "light")
        self.page = context.new_page()
        self.page.on("dialog", lambda dialog: dialog.accept())

    def login(self, place: str = "lab/tree/dlojz-course/day0_start.ipynb", seconds: float = 180) -> float:
        """By the link that an instructor hands out; returns the seconds until JupyterLab is there."""
        begun = time.monotonic()
        self.page.goto(f"{self.url}/hub/user-redirect/{place}")
        self.page.fill("#username_input", self.user)
        self.page.fill("#password_input", "any")
        self.page.click("#login_submit")
        self.page.wait_for_url(re.compile(r"/user/[^/]+/lab"), timeout=seconds * 1000)
        self._ready(seconds)
        return time.monotonic() - begun

    def _ready(self, seconds: float) -> None:
        self.page.wait_for_function("window.jupyterapp && document.querySelector('.lm-MenuBar-item')", timeout=seconds * 1000)
        self.page.wait_for_function("window.jupyterapp.restored.then(() => true)", timeout=seconds * 1000)

    def open(self, path: str, seconds: float = 120) -> None:
        self.page.goto(f"{self.url}/user/{self.user}/lab/tree/{path}?reset")
        self._ready(seconds)
        self.idle(seconds)

    def reload(self, seconds: float = 120) -> None:
        self.page.reload()
        self._ready(seconds)

    def close(self) -> None:
        self.page.context.close()

    def state(self) -> dict:
        return self.page.evaluate(STATE)

    def idle(self, seconds: float = 120) -> None:
        """Until the kernel is idle and no cell waits, for a third of a second: it may be idle between two cells."""
        until, since = time.monotonic() + seconds, None
        while True:
            state, now = self.state(), time.monotonic()
            assert not state["dialog"], f"JupyterLab asks: {state['dialog']}"
            since = (since or now) if state["idle"] and not state["waiting"] else None
            if since and now - since > 0.3:
                return
            assert now < until, f"not idle after {seconds} s: {state}\n{self.shown()[-2000:]}"
            self.page.wait_for_timeout(100)

    def menu(self, top: str, command: str) -> None:
        self.page.click(f".lm-MenuBar-item:has-text('{top}')")
        self.page.click(f".lm-Menu-item[data-command='{command}']")

    def run_all(self, seconds: float = 300, wait: bool = True) -> float:
        begun = time.monotonic()
        self.menu("Run", "runmenu:run-all")
        self.until(lambda: self.state()["waiting"] or self.state()["done"], 30, "a cell that runs")
        if wait:
            self.idle(seconds)
        return time.monotonic() - begun

    def run_cell(self, words: str, wait: float = 60) -> None:
        """Run the first cell with these words in its source."""
        self.page.evaluate(f"""async words => {{ {FRONT}
          front.content.activeCellIndex = front.content.widgets.findIndex(c =>
            c.model.type == 'code' && c.model.sharedModel.source.includes(words));
          front.content.widgets[front.content.activeCellIndex].node.scrollIntoView();
          window.jupyterapp.commands.execute('notebook:run-cell') }}""", words)
        if wait:
            self.page.wait_for_timeout(300)
            self.idle(wait)

    def run_instead(self, words: str, source: str, wait: float = 60) -> None:
        """Write this into the first cell with these words, and run it."""
        self.page.evaluate(f"""([words, source]) => {{ {FRONT}
          front.content.widgets.find(c => c.model.type == 'code' && c.model.sharedModel.source.includes(words))
            .model.sharedModel.setSource(source) }}""", [words, source])
        self.run_cell(source, wait)

    def save(self) -> None:
        self.menu("File", "docmanager:save")
        self.page.wait_for_function(f"() => {{ {FRONT} return !front.context.model.dirty }}")

    def restart(self) -> None:
        self.menu("Kernel", "kernelmenu:restart")
        self.page.click(".jp-Dialog .jp-mod-accept")
        self.page.wait_for_selector(".jp-Dialog", state="detached")
        self.idle()

    def errors(self) -> list[str]:
        return self.page.evaluate(ERRORS)

    def shown(self) -> str:
        """All that the notebook's outputs show, widgets included."""
        return self.page.evaluate(SHOWN)

    def until(self, condition, seconds: float = 60, what: str = "it") -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"{what} did not come in {seconds} s\n{self.shown()[-3000:]}"
            self.page.wait_for_timeout(200)

    def shows(self, words: str, seconds: float = 60) -> None:
        self.until(lambda: words in self.shown(), seconds, repr(words))

    def press(self, label: str, nth: int = 0) -> None:
        buttons = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) button.jupyter-button",
                                    has_text=re.compile(rf"^\s*{re.escape(label)}\s*$"))
        buttons.nth(nth).scroll_into_view_if_needed()
        buttons.nth(nth).click()

    def picture(self, file: Path | str) -> None:
        """The whole notebook, cells that JupyterLab does not paint while they are off the screen included."""
        self.page.add_style_tag(content=".jp-Notebook-cell { content-visibility: visible !important }")
        outer = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer"
        tall = self.page.eval_on_selector(outer, "e => e.scrollHeight")
        self.page.set_viewport_size({"width": 1400, "height": min(int(tall) + 200, 15000)})
        self.page.eval_on_selector(outer, "e => { e.scrollTop = 0 }")
        self.page.wait_for_timeout(800)
        self.page.screenshot(path=file)
        self.page.set_viewport_size({"width": 1400, "height": 900})
