"""Pack the built book into one file to carry: archive.py FOLDER FILE.zip

Unpacked anywhere, index.html opens from the disk. The same book gives the same file.
"""

import sys
import zipfile
from pathlib import Path

FOR_SERVERS = {"404.html", "robots.txt", "sitemap.xml", "objects.inv", ".buildinfo"}


def pack(folder, path):
    """Write the archive, whose files lie in one folder of its own name."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(Path(folder).rglob("*")):
            name = file.relative_to(folder).as_posix()
            if file.is_file() and name not in FOR_SERVERS:
                entry = zipfile.ZipInfo(f"{Path(path).stem}/{name}")
                entry.external_attr = 0o644 << 16
                deflate = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes(), deflate, 9)
    return Path(path).stat().st_size


if __name__ == "__main__":
    size = pack(*sys.argv[1:])
    print(f"{sys.argv[2]}: {size / 1e6:.1f} MB")
