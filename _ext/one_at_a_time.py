"""Let two builds of one book wait for each other: they share folders."""

from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there, builds do not wait
    fcntl = None


def setup(app):
    if fcntl:
        folder = Path(app.outdir).parent
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".building").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        app.building = lock  # let go when the program ends, however it ends
    return {"parallel_read_safe": True, "parallel_write_safe": True}
