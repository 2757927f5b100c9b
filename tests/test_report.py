"""The report: its numbers are those of SQL, it stands alone, survives hostile text and says what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_home import build_home, curve, identity, make_run

import warehouse
from pipeline.report import markdown_summary, write_report
from pipeline.report.data import Artifact, read_report_data
from pipeline.report.findings import headlines
from pipeline.report.numbers import number, percent
from pipeline.report.page import file_name
from warehouse import Store
from workers.errors import UserError

SMALL = dict(methods=("spot",), budgets=(8,), seeds=(0,), temperatures=(0.0,), tasks=("tiny-math",), samples=1)
HOSTILE = "</td></pre><script>alert('x')</script><img src=x onerror=alert(1)> & ' \" 日本 {{ 7 * 7 }}"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Tags with their attributes, and every table as rows of cell texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = True
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.tables[-1][-1][-1] += data


def run_of(method: str, budget: int, samples: int, **options: object) -> tuple[dict, pa.Table, pa.Table]:
    """A run on tiny-math at T = 0 with seed 0, as `build_home` would write it."""
    return make_run(
        "synthetic",
        method,
        budget,
        0.0,
        "tiny-math",
        0,
        samples=samples,
        device="Example CPU, 1 thread",
        output="",
        **options,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_home(
        tmp_path_factory.mktemp("report") / "home",
        methods=("spot", "spiffy", "chain"),
        budgets=(8, 20),
        seeds=(0, 1),
        samples=2,
    )


@pytest.fixture(scope="module")
def page(home: Path) -> str:
    return write_report(home, "synthetic").read_text("utf-8")


def test_main_table_shows_the_numbers_of_sql(home: Path, page: str) -> None:
    tables = Page(page).tables[:2]
    with warehouse.connect(home) as connection:
        for table, temperature in zip(tables, (0.0, 1.0), strict=True):
            shown = {(row[0], row[1]): row[2:] for row in table[3:]}
            for method, budget in shown:
                rows = connection.execute(
                    "SELECT nfe, nfe_std, nfe_reduction, ratio, ratio_std FROM main_table "
                    "WHERE temperature = ? AND method = ? AND budget = ? ORDER BY task",
                    [temperature, method, 0 if budget == "–" else int(budget)],
                ).fetchall()
                expected = []
                for nfe, nfe_std, cut, ratio, ratio_std in rows:
                    spread = "" if method == "control" else f"±{ratio_std:.2f}"
                    expected += [f"{nfe:.1f}±{nfe_std:.1f}", f"{cut:.2f}×", f"{ratio:.2f}×{spread}"]
                assert shown[method, budget] == expected
            assert len(shown) == 1 + 3 * 2


def test_best_is_bold_in_terminal_and_page(home: Path, page: str) -> None:
    with warehouse.connect(home) as connection:
        best = connection.execute(
            "SELECT min(nfe) FROM main_table WHERE temperature = 1 AND budget = 20 AND task = 'tiny-math'"
        ).fetchone()[0]
    text = markdown_summary(home, "synthetic")
    line = next(
        line for line in text.split("## T = 1")[1].splitlines() if line.startswith("| spot ") and "| 20 |" in line
    )
    assert f"**{best:.1f}**" in line
    assert f'<span class="best">{best:.1f}</span>' in page


def test_page_asks_for_nothing_from_outside(page: str) -> None:
    for tag, attributes in Page(page).tags:
        assert tag not in ("script", "iframe", "object", "embed", "base")
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            value = attributes.get(name) or ""
            assert value == "" or value.startswith(("#", "data:")), f"<{tag} {name}={value}>"
    assert not re.search(r"@import|url\((?!#)", page)


def test_ids_are_unique_and_references_resolve(page: str) -> None:
    parsed = Page(page)
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r"url\(#([^)]*)\)", page)) | {
        a["href"][1:] for _, a in parsed.tags if (a.get("href") or "").startswith("#")
    }
    assert used and used <= set(ids)


def test_every_figure_is_there(page: str) -> None:
    for name in ("nfe", "ratio", "bought", "block", "answer", "timing", "learning", "seeds"):
        assert f'id="figure-{name}"' in page
    assert "γ = 0.05" in page and "0.05 (chosen)" in page


def test_findings_are_computed(page: str, home: Path) -> None:
    with warehouse.connect(home) as connection:
        runs = connection.execute("SELECT count(*) FROM paired WHERE method <> 'control'").fetchone()[0]
    assert "spot needs the fewest target forwards in 8 of 8 settings (task, temperature and budget):" in page
    assert f"All {runs} runs of exact methods" in page
    assert "made on a CPU" in page


def test_hostile_text_is_shown_not_run(tmp_path: Path) -> None:
    home = build_home(tmp_path, HOSTILE, **SMALL, device=HOSTILE, output=HOSTILE, failed=HOSTILE)
    path = write_report(home, HOSTILE)
    assert path.parent == home / "reports"
    text = path.read_text("utf-8")
    parsed = Page(text)
    assert not [tag for tag, _ in parsed.tags if tag in ("script", "img")]
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert HOSTILE in [
        cell for table in parsed.tables for row in table for cell in row
    ]  # the failed node's message, as it was
    assert "49" not in re.sub(r"<svg.*?</svg>", "", text.split("<h1>")[1].split("</h1>")[0], flags=re.S)


def test_partial_data_says_what_is_missing(tmp_path: Path) -> None:
    grid = {**SMALL, "methods": ("spot", "chain")}
    home = build_home(tmp_path, **grid, control=False, artifacts=False, waiting=2, failed="out of memory")
    text = write_report(home, "synthetic").read_text("utf-8")
    for sentence in (
        "not finished: 2 of 5 nodes are done",
        "1 node failed",
        "without a control",
        "One seed only",
        "No order model was trained",
    ):
        assert sentence in text
    assert "±" not in Page(text).tables[0][3][2]
    assert not re.search(r"\b(nan|None|inf)\b", re.sub(r"<(svg|style).*?</\1>|<[^>]*>", "", text, flags=re.S))
    assert "made on a CPU" in markdown_summary(home, "synthetic")


def test_nothing_run_yet(tmp_path: Path) -> None:
    home = build_home(tmp_path, methods=(), control=False, artifacts=False, waiting=3)
    assert "so there are no tables" in write_report(home, "synthetic").read_text("utf-8")
    assert "so there are no tables" in markdown_summary(home, "synthetic")


def test_broken_exactness_is_the_headline_and_archived_runs_are_listed(tmp_path: Path) -> None:
    home = build_home(tmp_path, **{**SMALL, "seeds": (0, 1), "samples": 2})
    with Store(home) as store:
        run, samples, rounds = run_of("spot", 8, samples=2, attempt=1)
        tokens = samples["tokens"].to_pylist()
        tokens[1][5] += 1
        samples = samples.set_column(samples.column_names.index("tokens"), "tokens", [tokens])
        store.add_run(run, samples, rounds)
        control, samples, rounds = run_of("control", 0, samples=2, attempt=1, speed=1.25)
        store.add_run(control, samples, rounds)
        first = f"{identity('control', 0, 0.0, 'tiny-math', 0)[:16]}-0"
        store.archive_run(first, "re-timed after a long stretch", control["run_id"])
        store.event("synthetic", "warning", "outlier", "the control ran slow")
        store.publish()
    text = write_report(home, "synthetic").read_text("utf-8")
    assert "EXACTNESS FAILS: 1 of 2 runs" in text and "50.0 %" in text and run["run_id"] in text
    assert "re-timed after a long stretch" in text and first in text
    assert "the control ran slow" in text
    assert "+25.0" in text  # drift of the re-timed control


def test_limited_runs_stay_out_and_are_counted(tmp_path: Path) -> None:
    home = build_home(tmp_path, **SMALL)
    with Store(home) as store:
        run, samples, rounds = run_of("chain", 8, samples=1)
        store.add_run({**run, "limited": True}, samples, rounds)
        store.publish()
    text = write_report(home, "synthetic").read_text("utf-8")
    assert "1 run made with a limit" in text
    assert "chain" not in [cell for table in Page(text).tables for row in table for cell in row]


def test_a_score_that_differs_on_the_same_tokens_is_named(tmp_path: Path) -> None:
    home = build_home(tmp_path, **{**SMALL, "methods": (), "samples": 2})
    run, samples, rounds = run_of("spot", 8, samples=2)
    flipped = [not value for value in samples["correct"].to_pylist()]
    samples = samples.set_column(samples.column_names.index("correct"), "correct", [flipped])
    with Store(home) as store:
        store.plan_nodes("synthetic", [{"identity": run["identity"], "kind": "evaluate", "label": "spot"}])
        store.add_run(run, samples, rounds)
        store.publish()
    assert "although the tokens are the same: 2 samples of tiny-math" in markdown_summary(home, "synthetic")


def test_runs_of_an_earlier_plan_are_called_that(tmp_path: Path) -> None:
    home = build_home(tmp_path, **{**SMALL, "methods": ()})
    assert "belong to an earlier one" not in markdown_summary(home, "synthetic")
    with Store(home) as store:
        store.add_experiment("synthetic", "changed", "changed", "submit", {}, None)
        store.plan_nodes("synthetic", [{"identity": "new", "kind": "evaluate", "label": "new"}])
        store.publish()
    assert "belong to an earlier one" in markdown_summary(home, "synthetic")


def test_unreadable_artifact_is_named(tmp_path: Path) -> None:
    home = build_home(tmp_path, **SMALL)
    curve = home / "artifacts" / identity("train") / "curve.json"
    curve.write_text('[{"epoch": 1')
    assert "curve.json of node train cannot be read (not valid JSON)" in markdown_summary(home, "synthetic")
    curve.unlink()
    assert "curve.json of node train cannot be read (No such file" in write_report(home, "synthetic").read_text("utf-8")


def test_unknown_experiment_is_a_user_error(home: Path) -> None:
    with pytest.raises(UserError, match="no experiment 'other'.*synthetic"):
        write_report(home, "other")


def test_import_is_light() -> None:
    heavy = ("matplotlib", "jinja2", "torch", "ray", "duckdb")
    code = f"import sys, pipeline.report; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(st.text(min_size=1, max_size=80))
def test_file_names_stay_in_the_folder(name: str) -> None:
    made = file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.html", made)


@given(st.floats(0, 1, exclude_max=True))
def test_only_all_is_shown_as_100_percent(share: float) -> None:
    assert percent(share) != "100.0 %"


def test_missing_numbers_are_dashes() -> None:
    assert (number(None, 1), percent(None), percent(1.0)) == ("–", "–", "100.0 %")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_page_renders_in_a_browser_without_overflow(page: str, tmp_path: Path) -> None:
    probe = (
        "<script>addEventListener('load', () => {"
        "const panels = document.querySelectorAll('.panel svg'), box = panels[0].getBoundingClientRect();"
        "document.title = [document.documentElement.scrollWidth, innerWidth, panels.length,"
        "box.width > 100 && box.height > 100].join(' ') })</script>"
    )
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", probe + "</body>"), encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --window-size=500,900 --dump-dom"
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    scroll, inner, panels, drawn = re.search(r"<title>(.*?)</title>", done.stdout)[1].split()
    assert int(scroll) <= int(inner)
    assert int(panels) == page.count('<div class="panel">') > 20
    assert drawn == "true"


def test_a_run_with_the_tokens_of_an_inexact_control_is_comparable_with_it(tmp_path: Path) -> None:
    """As under an approximate cache; one whose tokens differ is comparable with nothing."""
    home = build_home(tmp_path, **{**SMALL, "methods": ()})
    with Store(home) as store:
        for method, shift in (("chain", 0), ("tree", 1)):
            run, samples, rounds = run_of(method, 8, samples=1)
            tokens = [[token + shift for token in row] for row in samples["tokens"].to_pylist()]
            samples = samples.set_column(samples.column_names.index("tokens"), "tokens", [tokens])
            store.plan_nodes("synthetic", [{"identity": run["identity"], "kind": "evaluate", "label": method}])
            store.add_run({**run, "distribution_preserving": False}, samples, rounds)
        store.publish()
    text = markdown_summary(home, "synthetic")
    assert "| chain ‡" in text and "NFE is comparable with that control's" in text
    assert "| tree †" in text and "so its NFE is not comparable" in text


@pytest.mark.parametrize(
    ("label", "name"),
    [("train/tiny-sdar", "tiny-sdar"), ("retrain/train/tiny-sdar/spot-small", "tiny-sdar/spot-small")],
)
def test_several_order_models_are_told_apart_by_name(home: Path, label: str, name: str) -> None:
    assert Artifact(label, curve()).name("train") == name
    data = read_report_data(home, "synthetic", brief=True)
    data = replace(data, curves=[Artifact("train/other", curve()), Artifact(label, curve())])
    assert any(line.startswith(f"The order model of {name} predicts") for line in headlines(data))
