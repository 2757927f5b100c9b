"""The command line: `python -m pipeline COMMAND`. Only the parsing of arguments; the work is done elsewhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from pipeline.paths import home_directory
from pipeline.tables import FORMATS
from warehouse import WarehouseError
from workers.errors import UserError

BAD_USAGE, INTERRUPTED, UNFINISHED = 2, 130, 3

EPILOG = """Exit codes: 0 all went well; 1 a node failed or an exact run differs from its control (the others went on);
2 bad spec or usage; 130 interrupted; 3 not finished (only of `status --exit-code`)."""


class Commands(click.Group):
    """Shows what a user can fix as one line on stderr, exit code 2, instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (UserError, WarehouseError) as error:
            for line in str(error).splitlines():
                click.echo(f"error: {line}", err=True)
            ctx.exit(BAD_USAGE)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(
    cls=Commands, invoke_without_command=True, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.pass_context
def main(context: click.Context) -> None:
    """Measures speculative decoding of diffusion language models: one YAML spec in, one SQL warehouse out."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _home(_: click.Context, __: click.Parameter, value: str | None) -> Path:
    return home_directory(value)


home_option = click.option(
    "--home", callback=_home, metavar="DIR", help="Where results live (default: $DRAFTHOUSE_HOME, else ./results)."
)
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting, e.g. --set stages.train.epochs=2; repeatable.",
)
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Evaluate only the first N samples; kept out of tables."
)
format_option = click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
spec_argument = click.argument("spec_path", metavar="SPEC", type=click.Path())


@main.command()
@click.argument("spec_paths", metavar="SPEC...", nargs=-1, required=True, type=click.Path())
@set_option
def validate(spec_paths: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """Check specs and report every mistake with its line. Reads only specs, task data and target configurations."""
    from pipeline.graph import build_graph
    from pipeline.spec import load_spec

    for path in spec_paths:
        graph = build_graph(load_spec(path, overrides))
        runs = sum(node.cell is not None for node in graph.nodes)
        click.echo(f"{path}: valid, {len(graph.nodes)} nodes, {runs} of them runs")


@main.command()
@spec_argument
@set_option
@limit_option
@home_option
@format_option
def plan(spec_path: str, overrides: tuple[str, ...], limit: int | None, home: Path, form: str) -> None:
    """Show every node of the task graph, its identity, whether it would run, and why. Changes nothing."""
    _print_plan(spec_path, overrides, limit, home, form)


@main.command()
@spec_argument
@set_option
@limit_option
@home_option
@click.option(
    "--address",
    metavar="ADDRESS",
    help="Use this Ray cluster, whose machines share the home (default: $RAY_ADDRESS, else start Ray here).",
)
@click.option("--detach", is_flag=True, help="Run in the background: exit 0 once it runs; `status` tells the rest.")
@click.option("--no-dashboard", is_flag=True, help="Start Ray without its dashboard, which saves about 1 GB of memory.")
@click.option("--dry-run", is_flag=True, help="The same as `plan`.")
def submit(
    spec_path: str,
    overrides: tuple[str, ...],
    limit: int | None,
    home: Path,
    address: str | None,
    detach: bool,
    no_dashboard: bool,
    dry_run: bool,
) -> None:
    """Run what is missing of an experiment; the same command again goes on where it stopped."""
    if dry_run:
        _print_plan(spec_path, overrides, limit, home, "table", address)
        return
    from pipeline.driver import submit as run
    from pipeline.spec import load_spec

    spec = load_spec(spec_path, overrides)
    if detach:
        from pipeline.detach import start_detached
        from pipeline.memory import check_memory

        check_memory(spec, address)
        arguments = [str(Path(spec_path).absolute())]
        arguments += [part for override in overrides for part in ("--set", override)]
        arguments += ["--limit", str(limit)] if limit else []
        arguments += ["--address", address] if address else []
        arguments += ["--no-dashboard"] if no_dashboard else []
        click.echo(start_detached(spec, home, arguments))
        return
    sys.exit(run(spec, home, address, limit, dashboard=not no_dashboard).exit_code)


@main.command()
@click.argument("name", required=False)
@home_option
@format_option
@click.option("--exit-code", is_flag=True, help="Exit 1 if nodes failed, 3 if the experiment is not finished.")
def status(name: str | None, home: Path, form: str, exit_code: bool) -> None:
    """Show how far the experiments (or the one NAMEd) are. Changes nothing, also while a submit runs."""
    from pipeline.status import read_status, show_status

    found = read_status(home, name)
    click.echo(show_status(found, home, form))
    if exit_code:
        sys.exit(
            1 if any(each.failed for each in found) else UNFINISHED if any(not each.finished for each in found) else 0
        )


@main.command()
@click.argument("node", required=False)
@home_option
@click.option("--failed", is_flag=True, help="The logs of all failed nodes, tracebacks included.")
@click.option("--experiment", metavar="NAME", help="Look only in this experiment.")
def logs(node: str | None, home: Path, failed: bool, experiment: str | None) -> None:
    """Print the log of a NODE: its label, the start of its identity, or a run id."""
    from pipeline.status import find_logs

    if (node is None) != failed:
        raise UserError("logs: name a node, or use --failed")
    for label, path in find_logs(home, node, experiment):
        click.echo(f"== {label} ({path})")
        click.echo(path.read_text() if path.exists() else "(no log: it never started)")


@main.command()
@home_option
def cancel(home: Path) -> None:
    """Stop the submit that runs on this home; what is done stays, the same submit goes on later."""
    from pipeline.control_files import request_cancel

    click.echo(request_cancel(home))


@main.command()
@click.argument("name", required=False)
@home_option
@click.option("--address", metavar="ADDRESS", help="Use this Ray cluster.")
@click.option("--no-dashboard", is_flag=True, help="Start Ray without its dashboard.")
def retry(name: str | None, home: Path, address: str | None, no_dashboard: bool) -> None:
    """Submit a stored experiment again: its failed, blocked and never started nodes run."""
    from pipeline.driver import submit as run
    from pipeline.status import stored_submission

    spec, limit = stored_submission(home, name)
    sys.exit(run(spec, home, address, limit, dashboard=not no_dashboard).exit_code)


@main.command()
@click.argument("query", required=False)
@home_option
@format_option
@click.option(
    "--file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Read the query from a file."
)
@click.option("--tables", is_flag=True, help="List the tables and views with their columns.")
def sql(query: str | None, home: Path, form: str, file: Path | None, tables: bool) -> None:
    """Ask the warehouse, also while a submit runs: "select * from main_table". Without QUERY stdin is read."""
    from pipeline.query import describe_tables, run_query

    if tables:
        click.echo(describe_tables(home))
        return
    if query is None or query == "-":
        query = file.read_text() if file else sys.stdin.read()
    click.echo(run_query(home, query, form))


@main.command()
@click.argument("name", required=False)
@home_option
@click.option("--markdown", is_flag=True, help="Print only the Markdown summary, write no page.")
def report(name: str | None, home: Path, markdown: bool) -> None:
    """Write the HTML page of an experiment (default: the latest) and print its summary."""
    from pipeline.report import markdown_summary, write_report
    from pipeline.status import experiment_name

    experiment = experiment_name(home, name)
    click.echo(markdown_summary(home, experiment))
    if not markdown:
        click.echo(f"Report: {write_report(home, experiment)}")


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@home_option
@click.option("--format", "form", type=click.Choice(["parquet", "csv", "json"]), default="parquet", show_default=True)
def export(directory: Path, home: Path, form: str) -> None:
    """Write every table and view to a file in DIRECTORY."""
    from warehouse import export as write

    files = write(home, directory, form)
    click.echo(f"{len(files)} files in {directory}")


@main.command("make-checkpoint")
@click.argument("family")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--size", default="tiny", show_default=True, help="tiny or small.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def make_checkpoint(family: str, directory: Path, size: str, seed: int) -> None:
    """Write a checkpoint of FAMILY (sdar, llada2, llada, dream) with random weights into DIRECTORY, in its layout."""
    from workers.targets.make_checkpoint import make_checkpoint as make

    written = make(family, directory, size, seed).resolve()
    setting = shlex.quote(f"target={{checkpoint: {written}, name: {family}}}")
    click.echo(f"{directory}: a {family} checkpoint; try it with --set {setting}")


@main.command()
@home_option
@click.option("--no-ray", is_flag=True, help="Leave out the check that starts Ray.")
def doctor(home: Path, no_ray: bool) -> None:
    """Check this machine: packages, memory, disk, home, warehouse, embedded targets, GPU, Ray."""
    from pipeline.doctor import examine

    marks = {True: "ok", False: "FAIL", None: "note"}
    good = True
    for check in examine(home, start_ray=not no_ray):
        click.echo(f"{marks[check.ok]:<5} {check.name:<13} {check.text}")
        good = good and check.ok is not False
    sys.exit(0 if good else 1)


def _print_plan(
    spec_path: str, overrides: tuple[str, ...], limit: int | None, home: Path, form: str, address: str | None = None
) -> None:
    from pipeline.driver import snapshot_query
    from pipeline.graph import build_graph
    from pipeline.memory import check_memory
    from pipeline.overlap import describe, pool_overlaps
    from pipeline.spec import load_spec
    from pipeline.standing import plan_rows
    from pipeline.tables import render

    spec = load_spec(spec_path, overrides)
    rows = plan_rows(build_graph(spec, limit), home, snapshot_query(home))
    columns = ["action", "label", "identity", "reason"]
    width = 16 if form == "table" else None
    click.echo(render(columns, [[row.action, row.label, row.identity[:width], row.reason] for row in rows], form))
    if form == "table":
        click.echo(f"{sum(row.action == 'run' for row in rows)} of {len(rows)} nodes would run")
        if any(row.kind == "collect" and row.action == "run" for row in rows):
            for pool, found in pool_overlaps(spec):
                click.echo(describe(pool, found))
    if any(row.action == "run" for row in rows):
        check_memory(spec, address)
