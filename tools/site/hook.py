"""A hook of MkDocs: the site has the repository's pages at their own paths, and those that are made here.

So the links between README.md, docs/, examples/, notebooks/ and benchmarks/ are the same in the site and on
GitHub, and nothing is copied. A link to a notebook leads to the page that is made of it.
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
_WORD = re.compile(r"^(\w+) {2,}(.*(?:\n {4,}.*)*)", re.MULTILINE)

# A link to a notebook, without its ending.
_NOTEBOOK = re.compile(r"\]\(([^)\s]+)\.ipynb\)")

# A cell of a table, code in it that is too long for a column, and where that may break.
_CELL = re.compile(r"<t[dh].*?</t[dh]>", re.DOTALL)
_LONG_CODE = re.compile(r"<code>([^<]{30,})</code>")
_FLAG = re.compile(r"(<code>|<code class=.long.>| )(--\w+)(?=[^<>]*<(?:/code|wbr)>)")
_MARK = re.compile(r"::|[/.,_=(]")

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
)  # that pages link to


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to what the theme brings."""
    for path in sorted(path for pattern in PAGES + FILES for path in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        files.append(File.generated(config, name, abs_src_path=str(path)))
    made: dict[str, str | bytes] = {
        "docs/reference/commands.md": commands.page(),
    }
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        content, pictures = notebook_pages.page(path)
        made[f"notebooks/{path.stem}.md"] = content
        made |= {f"notebooks/{name}": picture for name, picture in pictures.items()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Has links to notebooks lead to their pages, and adds the glossary of the code to that of the pages."""
    if page.file.src_uri == "docs/reference/words.md":
        markdown += words()
    return _NOTEBOOK.sub(r"](\1.md)", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lets long names of code break in cells of tables, at marks alone, and flags nowhere."""
    html = _CELL.sub(lambda cell: _LONG_CODE.sub(_breakable, cell[0]), html)
    return _FLAG.sub(r'\1<span class="flag">\2</span>', html)


def _breakable(code: re.Match[str]) -> str:
    return f'<code class="long">{_MARK.sub(lambda mark: f"{mark[0]}<wbr>", code[1])}</code>'


def words() -> str:
    """The glossary of the code, as a section."""
    glossary = (albert_tf.__doc__ or "").partition("\n\n")[2]
    entries = _WORD.sub(lambda found: f"\n`{found[1]}`\n:   {' '.join(found[2].split())}", glossary)
    return f"\n## Letters and words of the code\n\n{entries}"
