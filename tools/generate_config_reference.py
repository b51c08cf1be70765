"""
Write what is known about the configuration from its models: the template and the tables of the page.

    python tools/generate_config_reference.py            write the files
    python tools/generate_config_reference.py --check    exit 1 when a committed file is out of date

The template stands twice, for people who look at the repository and for people who have the wheel. Only
kinds of target that belong to pgsluice are written, whatever else is installed here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.pipeline.config.describe import settings
from pgsluice.pipeline.config.model import config_model
from pgsluice.pipeline.config.template import render
from pgsluice.sinks import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.pipeline.config.describe import Setting

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "configuration.md"
TEMPLATES = (
    ROOT / "config.template.yaml",
    ROOT / "src" / "pgsluice" / "cli" / "templates" / "config.template.yaml",
)
START, END = "<!-- generated: start -->\n", "<!-- generated: end -->\n"
CHOSEN = {
    "source": {"postgres": {"url": "${SOURCE_URL}"}},
    "target": {"duckdb": {"path": "shop.duckdb"}},
}


def outputs() -> dict[Path, str]:
    """Each file and what should be in it."""
    model = config_model(tuple(registry.kind(name) for name in sorted(registry.BUILT_IN)))
    template = render(model, CHOSEN, complete=True)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    tables = "\n".join(_tables(list(settings(model))))
    after = rest.partition(END)[2]
    return {**dict.fromkeys(TEMPLATES, template), PAGE: f"{before}{START}{tables}\n{END}{after}"}


def _tables(every: list[Setting]) -> Iterator[str]:
    """One table for the plain keys at the top, and one for each section of the first two levels."""
    groups: dict[str, list[Setting]] = {"": []}
    for setting in every:
        if setting.section:
            continue
        depth = 2 if setting.key[0] in ("source", "target") else 1
        groups.setdefault(".".join(setting.key[:-1][:depth]), []).append(setting)
    described = {setting.name: setting.description for setting in every}
    for name, members in groups.items():
        yield f"### {f'`{name}`' if name else 'At the top'}\n"
        if name:
            yield f"{described[name][:1].upper()}{described[name][1:].rstrip('.')}.\n"
        yield "| key | type | default | meaning |\n|---|---|---|---|"
        yield from (_row(setting) for setting in members)
        yield ""


def _row(setting: Setting) -> str:
    default = "required" if setting.required else f"`{setting.default_text}`"
    meaning = setting.description.replace("*", "\\*").replace("<", "&lt;")
    cells = (f"`{setting.name}`", setting.type, default, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` compare them."""
    code = 0
    for path, text in outputs().items():
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is out of date: run make format", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
