"""Which operations are allowed. Every door uses these checks."""

from ipaddress import ip_address

from ..errors import PermissionDenied


class Access:
    """Repository operations run code from disk. Beyond loopback they are closed unless a setting opens them."""

    def __init__(self, host: str, allow_open_repository: bool) -> None:
        self.repository_open = allow_open_repository or is_loopback(host)

    def check_repository(self) -> None:
        """Raise PermissionDenied where index, load and unload are closed."""
        if not self.repository_open:
            raise PermissionDenied(
                "The repository API is closed because the server listens beyond loopback; "
                "the setting allow_open_repository opens it."
            )

    def check_log(self) -> None:
        """Raise PermissionDenied where nobody may follow the access log, which names models and clients."""
        if not self.repository_open:
            raise PermissionDenied(
                "The access log is closed because the server listens beyond loopback; "
                "the setting allow_open_repository opens it."
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
