"""
The injector: what tells an event's row from others, and how new the event is.

``apply`` has the modifier, ``finders`` the columns that make an identity or a version, ``check`` what can be
wrong with a configuration.
"""

from pgsluice.modifiers.injector.apply import Injection, Injector, WithoutIdentity
from pgsluice.modifiers.injector.finders import ConfiguredIdentity, ConfiguredVersion

__all__ = ["ConfiguredIdentity", "ConfiguredVersion", "Injection", "Injector", "WithoutIdentity"]
