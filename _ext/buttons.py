"""Point the buttons of every page at the repository that builds the book.

A fork needs no edit: the repository is GITHUB_REPOSITORY (set by GitHub's runners), or
else the remote of the checkout. Where there is neither, no button that needs it shows.
"""

import os
import re
import subprocess


def github_url(remote):
    """Return the https address of a GitHub remote, or None for any other remote."""
    match = re.search(r"github\.com[:/]([\w.-]+/[\w.-]+?)(\.git)?/?$", remote)
    return f"https://github.com/{match[1]}" if match else None


def repository(folder):
    """Return the https address of the repository that holds `folder`, or None."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"https://github.com/{name}"
    git = ["git", "-C", folder, "config", "--get", "remote.origin.url"]
    try:
        return github_url(subprocess.run(git, capture_output=True, text=True).stdout)
    except FileNotFoundError:  # no git here
        return None


def point_buttons(app, config):
    url = repository(app.confdir)
    options = config.html_theme_options
    options["repository_url"] = url or ""
    for button in ("repository", "edit_page", "issues"):
        options[f"use_{button}_button"] = bool(url)
    if not url:
        options["launch_buttons"] = {}


def setup(app):
    app.connect("config-inited", point_buttons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
