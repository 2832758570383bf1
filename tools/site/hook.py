"""A hook of MkDocs, which adds the repository's pages at their own paths, and generated pages.

So the links between README.md, docs/, examples/, notebooks/ and benchmarks/ are the same in the site and on
GitHub, and nothing is copied. A link to a notebook leads to the page of the notebook.
"""

import re
from pathlib import Path

import commands
import notebook_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import albert_tf

# A word of the glossary in the docstring of albert_tf, and its meaning.
_GLOSSARY_ENTRY = re.compile(r"^(\w+) {2,}(.*(?:\n {4,}.*)*)", re.MULTILINE)

# A link to a notebook, without its ending.
_NOTEBOOK = re.compile(r"\]\(([^)\s]+)\.ipynb\)")

# A cell of a table, code in it that is too long for a column, a flag, and marks where code may break.
_CELL = re.compile(r"<t[dh].*?</t[dh]>", re.DOTALL)
_LONG_CODE = re.compile(r"<code>([^<]{30,})</code>")
_FLAG = re.compile(r"(<code>|<code class=.long.>| )(--\w+)(?=[^<>]*<(?:/code|wbr)>)")
_BREAK_MARK = re.compile(r"::|[/.,_=(]")

ROOT = Path(__file__).parents[2]
PAGES = (
    "*.md",
    "docs/**/*.md",
    "examples/*/README.md",
    "notebooks/*.md",
    "benchmarks/**/README.md",
    "benchmarks/results/*.md",
)
FILES = (
    "docs/pictures/*.png",
    "docs/pictures/paper/*.svg",
    "examples/several_hosts/*.*",
    "examples/serving/*.py",
    "examples/serving/c/*.c",
)  # linked from pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to the files of the theme."""
    for path in sorted(path for pattern in PAGES + FILES for path in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        files.append(File.generated(config, name, abs_src_path=str(path)))
    generated: dict[str, str | bytes] = {"docs/reference/commands.md": commands.create_commands_page()}
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        content, pictures = notebook_pages.create_notebook_page(path)
        generated[f"notebooks/{path.stem}.md"] = content
        generated |= {f"notebooks/{name}": picture for name, picture in pictures.items()}
    for name, content in generated.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to the pages of notebooks, and adds the glossary of the code to that of the pages."""
    if page.file.src_uri == "docs/reference/words.md":
        markdown += format_glossary()
    return _NOTEBOOK.sub(r"](\1.md)", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lets long code in tables break at marks, and flags nowhere."""
    html = _CELL.sub(lambda cell: _LONG_CODE.sub(_make_breakable, cell[0]), html)
    return _FLAG.sub(r'\1<span class="flag">\2</span>', html)


def _make_breakable(code: re.Match[str]) -> str:
    return f'<code class="long">{_BREAK_MARK.sub(lambda mark: f"{mark[0]}<wbr>", code[1])}</code>'


def format_glossary() -> str:
    """The glossary of the code as a section of Markdown."""
    glossary = (albert_tf.__doc__ or "").partition("\n\n")[2]
    entries = _GLOSSARY_ENTRY.sub(lambda entry: f"\n`{entry[1]}`\n:   {' '.join(entry[2].split())}", glossary)
    return f"\n## Letters and words of the code\n\n{entries}"
