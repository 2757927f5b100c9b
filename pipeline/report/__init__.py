"""Reports of an experiment, read from the published snapshot: one self-contained HTML page and a Markdown summary."""

from __future__ import annotations

from pathlib import Path

from workers.errors import UserError


def write_report(home: Path, experiment: str) -> Path:
    """Write home/reports/<experiment>.html and return its path.

    Works while the experiment runs; what is not there yet is named on the page. Raises UserError for an unknown
    experiment or a folder that cannot be written, WarehouseError where nothing was published yet.
    """
    from pipeline.report.data import read_report_data
    from pipeline.report.page import file_name, render

    text = render(read_report_data(home, experiment))
    path = home / "reports" / file_name(experiment)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    return path


def markdown_summary(home: Path, experiment: str) -> str:
    """The counterpart of SPOT's Table 2 and the findings, as Markdown for a terminal. Raises as `write_report` does."""
    from pipeline.report.data import read_report_data
    from pipeline.report.summary import markdown

    return markdown(read_report_data(home, experiment, brief=True))
