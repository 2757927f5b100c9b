"""What a running submit shows: the display, the heartbeat for other processes, the estimate of the time left."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.cluster import Seat
from pipeline.control_files import Beat, this_process, write_beat
from pipeline.graph import Node
from pipeline.progress import Display, TimeLeft, View

BEAT_EVERY_S = 2.0


class Watch:
    """Shows the submit of `experiment` on `display` and in the heartbeat file of `home`."""

    def __init__(self, experiment: str, home: Path, display: Display) -> None:
        self.dashboard: str | None = None
        self._experiment = experiment
        self._home = home
        self._display = display
        self._time_left = TimeLeft()
        self._started_at = time.time()
        self._next_beat = 0.0

    def note(self, text: str, style: str = "") -> None:
        self._display.note(text, style)

    def took(self, node: Node, seconds: float) -> None:
        self._time_left.saw(_group(node), seconds)

    def look(
        self, total: int, counts: Mapping[str, int], waiting: list[Node], busy: list[tuple[Seat, Node]], seats: int
    ) -> None:
        """One look: `counts` by state, nodes to come, busy workers with their nodes, number of workers."""
        running = [_progress(seat) for seat, _ in busy]
        current = [(_group(node), time.monotonic() - seat.since) for seat, node in busy]
        left = self._time_left.seconds(map(_group, waiting), current, seats)
        stopped = counts.get("blocked", 0) + counts.get("cancelled", 0)
        self._display.show(View(total, counts["done"], counts.get("failed", 0), stopped, running, left))
        if time.monotonic() >= self._next_beat:
            self.beat("running", counts, running, left)

    def beat(
        self,
        state: str,
        counts: Mapping[str, int],
        running: list[dict[str, Any]] | None = None,
        left: float | None = None,
    ) -> None:
        """Tells other processes that this one lives, until the state is "finished"."""
        self._next_beat = time.monotonic() + BEAT_EVERY_S
        beat = Beat(
            experiment=self._experiment,
            **this_process(),
            started_at=self._started_at,
            beat_at=time.time(),
            state=state,
            counts=dict(counts),
            running=running or [],
            time_left_s=left,
            dashboard=self.dashboard,
        )
        write_beat(self._home, beat)


def _progress(seat: Seat) -> dict[str, Any]:
    """What a busy worker is at; its progress file may not be there yet, or be that of its previous order."""
    item = {"worker": seat.name, "label": seat.order.label, "seconds": time.monotonic() - seat.since}
    try:
        progress = json.loads(seat.order.progress.read_text())
    except (OSError, ValueError):
        return item
    return item | progress if progress.get("key") == seat.order.key else item


def _group(node: Node) -> tuple[str, ...]:
    """Nodes that take about as long as one another."""
    cell = node.cell or {}
    return (node.kind, str(cell.get("task")), str(cell.get("method")), str(cell.get("budget")))
