"""Whom we trust to be the upstream, and how we say who we are."""

import ssl
from pathlib import Path
from weakref import WeakValueDictionary

import certifi

from gateway.errors import ConfigurationError
from gateway.ports import Origin

_PLAIN: WeakValueDictionary[ssl.DefaultVerifyPaths, ssl.SSLContext] = WeakValueDictionary()
"""The settings of all who trust the platform's authorities and show no certificate, by where those lie: to read them
takes 20 ms and 0.8 MiB. Kept while a connection of theirs may need them, so that they are read anew in time."""


def client_context(origin: Origin) -> ssl.SSLContext:
    """The TLS settings of connections to ``origin``: TLS 1.2 or later, HTTP/1.1 by ALPN.

    Those who need nothing special share them.

    Raises:
        ConfigurationError: ``verify`` or ``client_certificate`` names no file of what it should hold.
    """
    if origin.verify is not True or origin.client_certificate or origin.client_key:
        return _context(origin)
    places = ssl.get_default_verify_paths()
    shared = _PLAIN.get(places)
    if shared is None:
        shared = _PLAIN[places] = _context(origin)
    return shared


def _context(origin: Origin) -> ssl.SSLContext:
    context = _trusting(origin.verify)
    context.set_alpn_protocols(["http/1.1"])
    if origin.client_certificate:
        try:
            # An encrypted key would ask for its password on the terminal; the empty one is refused instead.
            context.load_cert_chain(origin.client_certificate, origin.client_key or None, password="")
        except OSError as error:  # which ssl.SSLError is as well
            raise ConfigurationError(
                "`client_certificate` and `client_key` are no pair of PEM files that can be read",
                where="client_certificate",
                hint="the key must not be encrypted",
            ) from error
    elif origin.client_key:
        raise ConfigurationError("`client_key` needs `client_certificate`", where="client_key")
    return context


def _trusting(verify: bool | str) -> ssl.SSLContext:  # noqa: FBT001  # the type of the policy file's field
    if isinstance(verify, str):
        try:
            return ssl.create_default_context(cafile=verify)
        except OSError as error:
            raise ConfigurationError(f"`{verify}` is no file of CA certificates", where="verify") from error
    context = ssl.create_default_context()  # the platform's authorities, or those of SSL_CERT_FILE and SSL_CERT_DIR
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not _platform_has_authorities():
        context.load_verify_locations(certifi.where())
    return context


def _platform_has_authorities() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or (bool(paths.capath) and any(Path(paths.capath).iterdir()))
