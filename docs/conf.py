"""How the documentation is built: `make docs`.

Nothing is loaded from elsewhere: mathematics is drawn at build time (`_ext/mathtext_svg.py`), fonts and icons come
with the theme.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
for _pool in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")

import api_pages  # noqa: E402

import cavity  # noqa: E402

api_pages.write(HERE / "api")

project = "cavity"
author = "The cavity developers"
project_copyright = "2026, the cavity developers"
version = release = cavity.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "mathtext_svg",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
default_role = "code"  # docstrings write `names` with one backtick

# --- pages ----------------------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathtext"
html_theme = "pydata_sphinx_theme"
html_title = "cavity"
html_static_path = ["_static"]
html_css_files = ["cavity.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": [], "limits": [], "coming_from": []}

# --- reference from docstrings --------------------------------------------------------------------------------

autosummary_generate = True
autosummary_generate_overwrite = True
autodoc_typehints = "none"  # types are in the docstrings, with shapes
autodoc_default_options = {"member-order": "bysource"}
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # several names may share a line
napoleon_use_param = napoleon_use_rtype = False  # words of a type, such as array, are no links
add_module_names = False

# --- gallery --------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 0,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from elsewhere
    "copyfile_regex": r"",
    "plot_gallery": "True",
}


def _listed(folder: Path) -> set[str]:
    """Names of pages that a table of contents mentions already."""
    names: set[str] = set()
    for page in folder.glob("*/index.md"):
        names |= set(re.findall(r"^(?:[^<\n]*<)?/([\w-]+)>?$", page.read_text(encoding="utf-8"), re.M))
    root = (folder / "index.md").read_text(encoding="utf-8")
    return names | set(re.findall(r"^([\w-]+)$", root, re.M)) | {"index"}


def add_new_pages(app: Any, docname: str, source: list[str]) -> None:
    """New pages appear at the end of the guides, results of studies, if there are any, with the studies."""
    if docname == "guides/index":
        new = sorted({page.stem for page in HERE.glob("*.md")} - _listed(HERE))
        source[0] = source[0].replace("% new pages", "\n".join(f"/{name}" for name in new))
    if docname == "studies/index":
        found = sorted(
            page.relative_to(HERE / "studies").with_suffix("") for page in HERE.glob("studies/**/*.md")
        )
        results = "\n".join(page.as_posix() for page in found if page.as_posix() != "index")
        source[0] = source[0].replace("% results", results)


def always_read(app: Any, env: Any, added: Any, changed: Any, removed: Any) -> list[str]:
    """Pages whose lists depend on which other pages there are."""
    return ["guides/index", "studies/index"]


_REMOTE = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")


def nothing_from_elsewhere(app: Any, exception: Exception | None) -> None:
    """A page that would load something over the network is an error."""
    if exception is None and app.builder.format == "html":
        pages = (
            (page, _REMOTE.search(page.read_text(encoding="utf-8")))
            for page in Path(app.outdir).rglob("*.html")
        )
        remote = [f"{page.name}: {found[0]}" for page, found in pages if found]
        if remote:
            raise ExtensionError(f"pages must not load anything over the network: {remote[:5]}")


def no_routing_methods(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """scikit-learn adds `set_fit_request` and its kind to estimators; they are documented there."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


_CODE = re.compile(r"(``.+?``|`[^`]+`)")
_FIELD = re.compile(r"^( *(?:\w+, )*\w+?)_(?= :|$)")  # napoleon takes care of the last name of a field


def plain_docstrings(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Stars, bars and trailing underscores of formulas are text: only backticks, lists and examples are markup."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", ".. ", ":")):
            continue
        field = _FIELD.match(line)
        parts = _CODE.split(line[field.end() :] if field else line)
        for j in range(0, len(parts), 2):
            parts[j] = re.sub(r"(?<!\\)([*|])", r"\\\1", parts[j])
            parts[j] = re.sub(r"(\w)_(?=\W|$)", r"\1\\_", parts[j])
        head = re.sub(r"_(?=,)", r"\\_", field[1]) + "_" if field else ""
        lines[i] = head + "".join(parts)


def setup(app: Any) -> None:
    """Hooks of this file."""
    app.connect("source-read", add_new_pages)
    app.connect("env-get-outdated", always_read)
    app.connect("build-finished", nothing_from_elsewhere)
    app.connect("autodoc-skip-member", no_routing_methods)
    app.connect("autodoc-process-docstring", plain_docstrings, priority=100)
