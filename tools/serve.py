"""Serve a folder on this machine only: serve.py FOLDER [PORT]."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Say nothing: a page is a dozen requests."""


def server(folder, port=0):
    """Return a server of the folder on 127.0.0.1; port 0 takes any free one."""
    handler = partial(Quiet, directory=str(folder))
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


def main(folder, port=8000):
    try:
        book = server(folder, int(port))
    except OSError:
        print(f"Port {port} is taken, so another one serves.")
        book = server(folder)
    print(f"The book: http://127.0.0.1:{book.server_port}/  (Ctrl-C ends)", flush=True)
    try:
        book.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main(*sys.argv[1:])
