"""The configuration of a pipeline: its models, where values come from, and how to describe them."""

from pgsluice.pipeline.config.load import Loaded, load, load_config
from pgsluice.pipeline.config.model import (
    Config,
    FilterConfig,
    LogConfig,
    ModifiersConfig,
    SparkConfig,
    config_model,
)
from pgsluice.pipeline.config.source import PostgresSourceConfig, ReplicationConfig, SourceConfig
from pgsluice.pipeline.config.targets import BatchConfig, Target

__all__ = [
    "BatchConfig",
    "Config",
    "FilterConfig",
    "Loaded",
    "LogConfig",
    "ModifiersConfig",
    "PostgresSourceConfig",
    "ReplicationConfig",
    "SourceConfig",
    "SparkConfig",
    "Target",
    "config_model",
    "load",
    "load_config",
]
