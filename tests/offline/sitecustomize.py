"""Cut the network in every Python that finds this folder on PYTHONPATH.

Kernels still talk to their client: that goes over this machine, and through ZeroMQ.
"""

import socket

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
