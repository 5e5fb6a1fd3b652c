"""The documentation's site: `sphinx-build -W -b html docs build/site`.

Why Sphinx: most of the reference is made from docstrings, and Sphinx's autodoc imports
the code, so a renamed method breaks the build. MyST lets it read the same Markdown that
GitHub shows, and checks every link and anchor of it. MkDocs Material is no longer
developed, and its successor Zensical is too young to move all pages to.

Why autodoc and not autodoc2: our docstrings have Google's sections (Args, Raises),
which only autodoc's napoleon reads.

A warning is an error, so a link to a missing page, heading or file fails the build.
External links are not checked: CI may have no internet.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from sphinx.domains.python import PyObject

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT / "src"))

project = "kohort"
author = "the kohort authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
suppress_warnings = ["ref.python"]  # the client and the broker both have a ConfigError
html_theme = "furo"
html_title = f"kohort {release}"
html_static_path = ["_static"]
html_css_files = ["kohort.css"]
html_search_scorer = str(DOCS / "scorer.js")
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 4  # GitHub gives every heading an anchor
highlight_language = "none"  # blocks without a language are output
default_role = "py:obj"  # `Name` in a docstring is a link where there is such a thing

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes are described once, with their class
add_module_names = False
toc_object_entries_show_parents = "hide"

OUTSIDE = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/junit5/README.md": "how-to/java-service.md",
    "examples/go/README.md": "how-to/go-service.md",
    "examples/node/README.md": "how-to/node-service.md",
}
"""Pages outside this folder, and the pages of the site that include them."""

MENU = """
```{toctree}
:hidden:

First steps <readme>
```

```{toctree}
:hidden:
:glob:
:caption: Tutorial

tutorial/*
```

```{toctree}
:hidden:
:glob:
:caption: How-to

how-to/*
```

```{toctree}
:hidden:
:glob:
:caption: Reference

reference/command-line
reference/configuration
reference/testing-reference
reference/client
reference/api-testing
reference/api-client
reference/api-broker
reference/*
```

```{toctree}
:hidden:
:glob:
:caption: Explanation

explanation/architecture
explanation/*
```

```{toctree}
:hidden:
:caption: Development

contributing
changelog
```
"""
"""The menu. It is not in index.md because GitHub shows a toctree as code."""


def relinked(text: str, source: Path, page: str) -> str:
    """Returns a page's text with links that work in the site.

    Args:
        text: Markdown.
        source: the file whose links these are.
        page: the document of the site in which the text appears.
    """
    here = (DOCS / page).parent

    def link(found: re.Match[str]) -> str:
        path, anchor = found[1], found[2] or ""
        target = Path(os.path.normpath(source.parent / path))
        included_by = OUTSIDE.get(os.path.relpath(target, ROOT))
        if included_by:
            target = DOCS / included_by
        return f"]({os.path.relpath(target, here)}{anchor})"

    return re.sub(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)", link, text)


def read_page(_: object, page: str, source: list[str]) -> None:
    """Relinks a page, and adds the menu to the first one."""
    source[0] = relinked(source[0], DOCS / f"{page}.md", page)
    if page == "index":
        source[0] += MENU


def read_included(_: object, path: Path, __: str, source: list[str]) -> None:
    """Relinks a page outside this folder, which a page of the site includes."""
    outside = Path(os.path.normpath(DOCS / path))
    source[0] = relinked(source[0], outside, OUTSIDE[os.path.relpath(outside, ROOT)])


def mark_examples(*arguments: Any) -> None:
    """Makes code blocks of a docstring's indented examples."""
    lines: list[str] = arguments[-1]
    marked: list[str] = []
    before = ""
    for line in lines:
        begins = line.startswith("    ") and not before.startswith("    ")
        if begins and marked and not marked[-1]:
            marked += [".. code-block:: python", ""]
        marked.append(line)
        before = line or before
    lines[:] = marked


def setup(app: Any) -> None:
    """Connects the functions above."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("source-read", read_page)
    app.connect("include-read", read_included)
    app.connect("autodoc-process-docstring", mark_examples, priority=400)
