"""``pgsluice config schema``: the configuration as a JSON Schema, for editors."""

from __future__ import annotations

from pgsluice.cli.output import print_json


def schema() -> None:
    """Print a JSON Schema of the configuration file, with the targets that are installed."""
    from pgsluice.pipeline.config import config_model

    print_json(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **config_model().model_json_schema(),
            "title": "Configuration of a pgsluice pipeline",
        }
    )
