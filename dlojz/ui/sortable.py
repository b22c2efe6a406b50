"""A comparison that can be sorted in a notebook: imported only where somebody can see it."""

from __future__ import annotations

import threading

import ipywidgets


def sortable(comparison) -> ipywidgets.VBox:
    """The table under a choice of the column that orders it. JupyterLab runs the callback in a thread of its own: it sets one
    value, under a lock."""
    lock = threading.Lock()
    columns = [(comparison.heading(name), name) for name in comparison.columns]
    choice = ipywidgets.Dropdown(options=columns if comparison.by else [("as given", ""), *columns], value=comparison.by,
                                 description="sort by", layout={"width": "20em"})
    shown = ipywidgets.HTML(comparison._repr_html_())

    def chosen(change) -> None:
        with lock:
            shown.value = (comparison.sort(change["new"]) if change["new"] else comparison)._repr_html_()

    choice.observe(chosen, "value")
    return ipywidgets.VBox([choice, shown])
