"""What a published site needs beside its pages: address, edition, map, 404, robots.

The address follows from the repository that builds, so a fork needs no edit. A build of
a tag is an edition with an address of its own, so that the pages of a course stay.
Without a repository there is no address, and what needs one is left out.
"""

import os
import subprocess
from html import escape
from pathlib import Path

import yaml
from buttons import repository

BASE = '<base href="{}">'
FRONT = """<!DOCTYPE html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="refresh" content="0; url={page}">
{metatags}</head><body><p><a href="{page}">{title}</a></p></body></html>
"""
NOT_FOUND = """
<section><h1>This page is not here</h1>
<p>It may have moved to another chapter. The table of contents is beside this text, and
the search field above it knows every word of the book.</p>
<p><a href="chapters/intro.html">Start at the first page</a></p></section>
"""


def edition():
    """Return the folder of the site that this build is for: a tag's name, or none."""
    tagged = os.environ.get("GITHUB_REF_TYPE") == "tag"
    return f"{os.environ['GITHUB_REF_NAME']}/" if tagged else ""


def address(url):
    """Return where the pages of a repository on GitHub are served, or "" for None."""
    if not url:
        return ""
    owner, name = url.removeprefix("https://github.com/").split("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" + ("" if name.lower() == host else f"{name}/") + edition()


def citation(folder):
    return yaml.safe_load(Path(folder, "CITATION.cff").read_text(encoding="utf-8"))


def imprint(folder):
    """Return the version and the day of its last change, the same at every build."""
    cited = citation(folder)
    text = f"Version {cited['version']}, {cited['date-released']}"
    git = ["git", "-C", str(folder), "log", "-1", "--format=%cs (%h)"]
    try:
        done = subprocess.run(git, capture_output=True, text=True)
    except FileNotFoundError:  # no git here
        return text
    if done.stdout:
        text = f"Version {cited['version']}, {done.stdout.strip()}"
    return f"{text}, edition {edition().rstrip('/')}" if edition() else text


def configure(app, config):
    config.html_baseurl = config.ogp_site_url = address(repository(app.confdir))
    text = imprint(app.confdir)
    config.html_theme_options["extra_footer"] = f"<p>{escape(text)}</p>"


def not_found(app):
    """Make 404.html. It is served for any path, so its links have a base."""
    path = "/" + app.config.html_baseurl.partition(".github.io/")[2]
    context = {"title": "Not found", "body": NOT_FOUND, "base": BASE.format(path)}
    yield "404", context, "page.html"


def set_base(app, pagename, templatename, context, doctree):
    if "base" in context:
        context["metatags"] = context["base"] + context.get("metatags", "")


def front_door(app, pagename, templatename, context, doctree):
    """Lead from index.html to the first page, with what a shared link shows of it."""
    if pagename == app.config.root_doc:
        page = app.builder.get_target_uri(pagename)
        html = FRONT.format(**context, page=page)
        Path(app.outdir, "index.html").write_text(html, encoding="utf-8")


def write_map(app, exception):
    """List all pages, those that this build has left alone too."""
    url = app.config.html_baseurl
    if exception or app.builder.name != "html":
        return
    robots = ["User-agent: *", "Allow: /"]
    if url:
        robots.append(f"Sitemap: {url}sitemap.xml")
        pages = map(app.builder.get_target_uri, sorted(app.env.found_docs))
        urls = "".join(f"<url><loc>{escape(url + page)}</loc></url>" for page in pages)
        schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
        text = f'<?xml version="1.0"?>\n<urlset xmlns="{schema}">{urls}</urlset>\n'
        Path(app.outdir, "sitemap.xml").write_text(text, encoding="utf-8")
    Path(app.outdir, "robots.txt").write_text("\n".join(robots) + "\n")


def setup(app):
    app.setup_extension("sphinxext.opengraph")
    app.connect("config-inited", configure)
    app.connect("html-collect-pages", not_found)
    app.connect("html-page-context", set_base, priority=999)
    app.connect("html-page-context", front_door, priority=999)
    app.connect("build-finished", write_map)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
