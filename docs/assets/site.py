"""Bring the committed pictures of `results/` into the site, where pages link to them."""

from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]


def on_files(files, config):
    for path in sorted((ROOT / "results").glob("*.png")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """In the repository `results/` stands beside `docs/`; on the site it is a part of it."""
    return markdown.replace("](../results/", "](results/") if "/" not in page.url else markdown
