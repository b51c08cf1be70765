"""Speed and size, measured: ``python -m bench``. The package that is measured never imports this one."""
