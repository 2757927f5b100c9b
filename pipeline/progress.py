"""What a user sees while a submit runs: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

PLAIN_EVERY_S = 15.0


@dataclass(frozen=True)
class View:
    """One look at a submit. `running`: dicts with label, worker, seconds and, once known, done, total and figures."""

    total: int
    done: int
    failed: int
    blocked: int
    running: list[dict[str, Any]] = field(default_factory=list)
    time_left_s: float | None = None

    @property
    def tok_s(self) -> float | None:
        """Current tokens per second of all running measurements together."""
        rates = [item["figures"]["tok_s"] for item in self.running if item.get("figures", {}).get("tok_s") is not None]
        return sum(rates) if rates else None

    def line(self) -> str:
        parts = [f"{self.done}/{self.total} nodes done", f"{len(self.running)} running", f"{self.failed} failed"]
        if self.blocked:
            parts.append(f"{self.blocked} blocked")
        if self.tok_s is not None:
            parts.append(f"{self.tok_s:.0f} tok/s")
        parts.append("time left unknown" if self.time_left_s is None else f"about {duration(self.time_left_s)} left")
        return ", ".join(parts)


class Display:
    """Shows views and notes on `console`; a context manager, since a live panel has to give the terminal back."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._last_plain = time.monotonic()

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def note(self, text: str, style: str = "") -> None:
        """Prints one lasting line (a node ended, a warning)."""
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    def show(self, view: View) -> None:
        if self._live:
            self._live.update(self._panel(view), refresh=True)
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY_S:
            self._last_plain = time.monotonic()
            self.note(view.line())

    def _panel(self, view: View) -> Group:
        table = Table.grid(padding=(0, 2))
        for item in view.running:
            total = item.get("total") or 0
            bar = ProgressBar(total=total, completed=item.get("done", 0), width=20) if total else Text("")
            share = f"{item['done']}/{total}" if total else ""
            rate = item.get("figures", {}).get("tok_s")
            rate_text = "" if rate is None else f"{rate:.0f} tok/s"
            table.add_row(item["worker"], item["label"], bar, share, rate_text, duration(item["seconds"]))
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(self._title, style="bold"),
            ProgressBar(total=max(view.total, 1), completed=view.done, width=30),
            view.line(),
        )
        return Group(head, table)


class TimeLeft:
    """Estimates the remaining wall time from the durations seen so far, per class of node (its kind and method)."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], list[float]] = defaultdict(list)

    def saw(self, group: tuple[str, ...], seconds: float) -> None:
        self._seen[group].append(seconds)

    def seconds(
        self, waiting: Iterable[tuple[str, ...]], running: Iterable[tuple[tuple[str, ...], float]], workers: int
    ) -> float | None:
        """`waiting`: class of each node to come; `running`: class and seconds so far.

        None while most nodes are of a kind of which none has ended: nothing would be known of them.
        """
        waiting, running = list(waiting), list(running)
        groups = [*waiting, *(group for group, _ in running)]
        if sum(bool(self._of_kind(group[0])) for group in groups) < len(groups) / 2 or not self._seen:
            return None
        left = sum(self._expected(group) for group in waiting)
        left += sum(max(self._expected(group) - so_far, 0.0) for group, so_far in running)
        return left / max(workers, 1)

    def _expected(self, group: tuple[str, ...]) -> float:
        """Mean duration of the class, else of classes of the same kind, else of all."""
        for values in (self._seen.get(group, []), self._of_kind(group[0]), self._of_kind(None)):
            if values:
                return sum(values) / len(values)
        return 0.0

    def _of_kind(self, kind: str | None) -> list[float]:
        return [value for group, values in self._seen.items() if kind in (None, group[0]) for value in values]


def duration(seconds: float) -> str:
    """41 s, 3 min 5 s, 2 h 10 min."""
    whole = max(int(seconds + 0.5), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
