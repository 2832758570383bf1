"""A hook of MkDocs: the site has the repository's pages at their own paths, and two that are made here.

So the links between README.md, docs/, examples/ and benchmarks/ are the same in the site and on GitHub, and
nothing is copied.
"""

from pathlib import Path

from commands import page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import albert_tf

ROOT = Path(__file__).parents[2]
PAGES = ("*.md", "docs/**/*.md", "examples/*/README.md", "benchmarks/**/README.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to what the theme brings."""
    for path in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        files.append(File.generated(config, name, abs_src_path=str(path)))
    words = f"# Letters and words\n\n```text\n{albert_tf.__doc__}```\n"
    for name, content in (("commands", page()), ("words", words)):
        files.append(File.generated(config, f"docs/reference/{name}.md", content=content))
    return files
