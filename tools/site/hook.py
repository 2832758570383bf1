"""A hook of MkDocs: the site has the repository's pages at their own paths, and two that are made here.

So the links between README.md, docs/, examples/ and benchmarks/ are the same in the site and on GitHub, and
nothing is copied.
"""

import re
from pathlib import Path

from commands import page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import albert_tf

# A word of the glossary in the docstring of albert_tf, and its meaning.
_WORD = re.compile(r"^(\w+) {2,}(.*(?:\n {4,}.*)*)", re.MULTILINE)

ROOT = Path(__file__).parents[2]
PAGES = ("*.md", "docs/**/*.md", "examples/*/README.md", "benchmarks/**/README.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to what the theme brings."""
    for path in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, content in (("commands", page()), ("words", words())):
        files.append(File.generated(config, f"docs/reference/{name}.md", content=content))
    return files


def words() -> str:
    """The page of the glossary."""
    glossary = (albert_tf.__doc__ or "").partition("\n\n")[2]
    entries = _WORD.sub(lambda found: f"\n`{found[1]}`\n:   {' '.join(found[2].split())}", glossary)
    return f"# Letters and words\n\nWhat they mean in the reference and in the code.\n\n{entries}"
