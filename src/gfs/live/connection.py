"""Address and credentials for the API server: a kubeconfig file, or the service account inside a cluster."""

from __future__ import annotations

import logging
import os
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client import Configuration

from gfs.domain.errors import InputError

log = logging.getLogger("gfs.live")
USUAL = "~/.kube/config"


async def read_connection(kubeconfig: Path | None = None, context: str | None = None) -> Any:
    """Returns the configuration of a client; `InputError` says what is wrong with it.

    Without a file: $KUBECONFIG, the usual file, or the service account of the pod that we run in.
    """
    configuration = Configuration()
    named = kubeconfig or os.environ.get("KUBECONFIG")
    path = Path(named or USUAL).expanduser()
    if named and not path.is_file():
        raise InputError(f"{path}: no such kubeconfig file")
    if not path.is_file():
        try:
            kube_config.load_incluster_config(client_configuration=configuration)
        except (kube_config.ConfigException, OSError) as error:
            what = "no cluster is named: give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster"
            raise InputError(f"{what} ({error})") from error
        return configuration
    try:
        await kube_config.load_kube_config(config_file=str(path), context=context, client_configuration=configuration)
    except kube_config.ConfigException as error:
        why = " ".join(str(error).partition("{")[0].split())  # the rest quotes the file, which holds secrets
        raise InputError(f"{path}: cannot be used as a kubeconfig: {why}") from None
    except Exception as error:  # a file of anything fails in many ways, and what they say may quote it
        mark = getattr(error, "problem_mark", None)
        why = f"line {mark.line + 1} is not YAML" if mark is not None else type(error).__name__
        raise InputError(f"{path}: cannot be used as a kubeconfig: {why}") from None
    return configuration


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its own address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tls_of(configuration: Any, *, insecure: bool) -> ssl.SSLContext | bool:
    """Returns how to check the server's certificate, and our own; False: plain HTTP.

    Raises `InputError` unless TLS verifies the server, or it is this machine. `insecure`: only warns.
    """
    address = urlsplit(configuration.host)
    doubt = ""
    if address.scheme == "https" and not configuration.verify_ssl:
        doubt = "the kubeconfig says insecure-skip-tls-verify: the server could be anybody"
    elif address.scheme != "https" and not is_loopback(address.hostname or ""):
        doubt = "the kubeconfig names a server without TLS: credentials would be sent in the open"
    if doubt and not insecure:
        raise InputError(f"{doubt}; give it the certificate-authority of the server, or --insecure-skip-tls-verify")
    if doubt:
        log.warning(doubt)
    if address.scheme != "https":
        return False
    try:
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except OSError as error:  # also ssl.SSLError
        raise InputError(f"the certificates of the kubeconfig cannot be used: {error}") from error
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters sign their own
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls
