"""Check the certificates of a cluster before it starts: later errors do not name the reason."""

from __future__ import annotations

import ssl
import stat
import warnings
from pathlib import Path

#: Steps after which a handshake of two ends in memory has ended.
STEPS = 10


def check_certificates(authority: str, certificate: str, key: str) -> None:
    """Raise an error unless two processes with these files can connect to each other.

    Parameters
    ----------
    authority, certificate, key
        Paths of PEM files. A key that other users can read is a warning.

    Raises
    ------
    OSError
        A file is missing, or this user cannot read it.
    ValueError
        A file is damaged, a certificate has expired, or the files do not belong together.
    """
    files = (authority, certificate, key)
    for file in files:
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise OSError(
                f"{file!r} cannot be read ({error.strerror}): make the certificates with "
                "deploy/tls/certificates.sh, as the user who runs the cluster"
            ) from error
    try:
        _shake_hands(*files)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason or str(error)
        raise ValueError(
            f"the certificates {', '.join(files)} cannot be used ({reason.lower()}): make a new "
            "directory with deploy/tls/certificates.sh, and use it in all processes of the cluster"
        ) from error
    if Path(key).stat().st_mode & stat.S_IROTH:
        warnings.warn(
            f"every user of this machine can read {key} and run code on the cluster with it; type "
            f"chmod 600 {key}",
            stacklevel=2,
        )


def _shake_hands(authority: str, certificate: str, key: str) -> None:
    """Connect two ends in memory, each of which demands a certificate of the authority."""
    contexts = {}
    for purpose in (ssl.Purpose.SERVER_AUTH, ssl.Purpose.CLIENT_AUTH):
        context = ssl.create_default_context(purpose, cafile=authority)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
        contexts[purpose] = context
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        contexts[ssl.Purpose.SERVER_AUTH].wrap_bio(to_client, to_server),
        contexts[ssl.Purpose.CLIENT_AUTH].wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(STEPS):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
