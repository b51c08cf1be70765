"""``python -m bench [--only GROUP] [--repetitions N] [--rows N]``: measure, print, keep, and judge."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from bench import report
from bench.groups import GROUPS, load
from bench.harness import FULL_ROWS, LEAST_REPETITIONS, Options, exit_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.harness import Figure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups that were asked for; gives the exit code."""
    given = _parser().parse_args(arguments)
    options = Options(given.rows, given.repetitions, tuple(given.figure or ()))
    groups = [given.only] if given.only else list(GROUPS)
    return max(_run(name, options) for name in groups)


def _run(name: str, options: Options) -> int:
    group = load(name)
    unknown = [figure for figure in options.figures if figure not in group.figure_names()]
    if unknown:
        sys.stderr.write(f"group {name} has no {unknown[0]}; there are {', '.join(group.figure_names())}\n")
        return 2
    machine = report.this_machine(**group.versions())
    started = time.monotonic()
    _say(
        f"{name}: {options.rows:,} rows, {options.repetitions} repetitions, load before {machine.load_before}"
    )
    _say(report.heading())
    figures: list[Figure] = []
    for figure in group.measure(options):
        figures.append(figure)
        for line in (report.line(figure), *report.usage_lines(figure)):
            _say(line)
    if options.full:
        _say(f"kept in {report.keep(name, figures, machine, options)}")
    else:
        _say("not kept: the bars are meant for a full run")
    _say(f"{time.monotonic() - started:.0f} s")
    return exit_code(figures)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure speed and size.")
    parser.add_argument("--only", choices=GROUPS, help="one group instead of all")
    parser.add_argument("--rows", type=_at_least(1000), default=FULL_ROWS, help="fewer for a quick look")
    parser.add_argument("--repetitions", type=_at_least(LEAST_REPETITIONS), default=LEAST_REPETITIONS)
    parser.add_argument("--figure", action="append", help="one file of a group; may be repeated")
    return parser


def _at_least(least: int):  # type: ignore[no-untyped-def]
    def count(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"at least {least}")
        return number

    return count


if __name__ == "__main__":
    sys.exit(main())
