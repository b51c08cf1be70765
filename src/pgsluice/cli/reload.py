"""``pgsluice reload``: lets a running pipeline take the modifiers of its configuration anew."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

import typer

from pgsluice.cli.options import Name, StateDir, flags
from pgsluice.cli.output import print_text
from pgsluice.cli.settings import load_config, settings

_PATIENCE: Final = 60.0  # seconds: Spark may have to be started for a condition
_LOOK: Final = 0.1


def reload(context: typer.Context, name: Name = None, state_dir: StateDir = None) -> None:
    """
    Let the running pipeline read modifiers.filter.tables, transformations and sanitize again from its
    configuration. They hold from the next batch on; if anything is wrong with them, the old ones stay.
    """
    from pgsluice.errors import ConfigError
    from pgsluice.pipeline.reload import read_run

    config = load_config(context, flags(name=name, state_dir=state_dir))
    run = read_run(config.state_dir, config.log_dir)
    if run is None:
        raise ConfigError(
            f"no pipeline runs with the state directory {config.state_dir}",
            remedy="A run reads its configuration when it starts; give the -c or --state-dir of one",
        )
    os.kill(run.pid, signal.SIGHUP)
    deadline = time.monotonic() + _PATIENCE
    while (now := read_run(config.state_dir, config.log_dir)) is not None and now.reloads == run.reloads:
        if time.monotonic() > deadline:
            raise ConfigError("the pipeline has not answered", remedy="See its log lines")
        time.sleep(_LOOK)
    if now is None:
        raise ConfigError("the pipeline has ended", remedy="See its log lines")
    if now.problem is not None:
        raise ConfigError(
            f"the pipeline refuses the new modifiers, and the old ones stay: {now.problem}",
            remedy="Mend the configuration and ask again; `pgsluice validate rules` lists every problem",
        )
    if not settings(context).quiet:
        print_text("reloaded: the modifiers hold from the next batch on")
