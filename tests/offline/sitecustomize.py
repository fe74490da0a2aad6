"""Cut the network in every Python that finds this folder on PYTHONPATH.

Kernels still talk to their client: that goes over this machine, and through ZeroMQ.
And where the book's claims are loaded, `flips` watches them.
"""

import importlib.util
import socket
import sys

connect = socket.socket.connect


def connect_here(sock, address):
    """Connect, but only to this machine."""
    is_local = sock.family == getattr(socket, "AF_UNIX", None)
    if not is_local and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"{address[0]}: a notebook runs without the network")
    return connect(sock, address)


def resolve_here(host, *args, **kwargs):
    """Resolve no name but this machine's."""
    if host not in (None, "", "127.0.0.1", "::1", "localhost"):
        raise OSError(f"{host}: a notebook runs without the network")
    return getaddrinfo(host, *args, **kwargs)


getaddrinfo = socket.getaddrinfo
socket.socket.connect = connect_here
socket.getaddrinfo = resolve_here


class Watch:
    """Put `flips.watched` round `claim` as soon as `book.claims` is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "book.claims":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def load_and_watch(module):
            from flips import watched

            load(module)
            module.claim = watched(module.claim)

        spec.loader.exec_module = load_and_watch
        return spec


# Colab's versions, under which the stand-alone copies run, have no `executing`: there
# the checks of claims are the copies' own, as they are for a reader.
if importlib.util.find_spec("executing"):
    sys.meta_path.insert(0, Watch())
