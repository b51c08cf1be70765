"""From a configuration to a pipeline: the assembling place, with no logic of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.pipeline.build_source import build_source
from pgsluice.pipeline.intake import BatchOptions
from pgsluice.pipeline.labels import with_labels
from pgsluice.pipeline.modify import build_chain, require_sound
from pgsluice.pipeline.run import Pipeline
from pgsluice.pipeline.session import SparkOptions
from pgsluice.source.postgres import LogOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.config import Config
    from pgsluice.source.postgres import PostgresSource


def build_pipeline(
    config: Config,
    *,
    init: bool = False,
    quiet_spark: bool = True,
    reload: Callable[[], Config] | None = None,
    listener_logs: Mapping[str, Any] | None = None,
) -> Pipeline:
    """The pipeline of a configuration; ``reload`` reads it again when the pipeline is asked to."""
    targets = config.sinks()
    config = with_labels(config, keeps=True)
    chain = build_chain(config)

    def load_again(source: PostgresSource, spark: Callable[[], SparkSession]) -> Chain:
        assert reload is not None
        new = with_labels(reload(), keeps=True)
        made = build_chain(new)
        require_sound(new, made, source, spark)
        return made

    return Pipeline(
        build_source(config, init=init),
        {target.name: target.kind.build(target.options) for target in targets},
        name=config.name,
        state_dir=config.state_dir,
        log_dir=config.log_dir,
        log=LogOptions(config.log.max_bytes, config.log.retention, config.log.confirm),
        batch={
            target.name: BatchOptions(
                max_bytes=target.batch.max_bytes,
                max_changes=target.batch.max_rows,
                max_wait=target.batch.max_wait,
                queue_bytes=target.batch.queue_bytes,
                decode=target.batch.decode,
            )
            for target in targets
        },
        chain=chain,
        load_again=load_again if reload is not None else None,
        check=lambda source, spark: require_sound(config, chain, source, spark),
        renames={target.name: target.renames for target in targets},
        wanted=config.modifiers.filter.matcher().matches,
        mode=config.postgres.mode,
        on_error={target.name: target.on_error for target in targets},
        spark=SparkOptions(
            config.spark.master,
            config.spark.conf,
            config.spark.jars,
            config.spark.packages,
            quiet=quiet_spark,
        ),
        listener_logs=listener_logs,
    )
