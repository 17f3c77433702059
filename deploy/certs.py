"""Make a development CA and certificates for a Dask cluster over TLS.

    python deploy/certs.py FOLDER [--host NAME ...] [--days N]

Who holds a certificate of this CA may run code on the cluster; everyone else is turned
away in the handshake. The CA's key is not kept, so nobody can issue another one: making the
folder again replaces all of them.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SIDES = ("scheduler", "worker", "client")
HOSTS = ("localhost", "127.0.0.1", "::1")

_CONFIG = """\
# Dask's configuration for TLS: name this file in DASK_CONFIG of the {side}.
distributed:
  comm:
    require-encryption: true
    tls:
      ca-file: {folder}/ca.pem
      {side}: {{cert: {folder}/{side}.pem, key: {folder}/{side}-key.pem}}
"""


def make_certificates(folder: str, hosts: Sequence[str] = (), days: int = 365) -> list[str]:
    """Make a CA and a certificate for each side of a cluster; return the files.

    Parameters
    ----------
    folder
        A local folder. It gets one folder for each side, with all that the side needs and no
        other side's key: ``ca.pem``, ``SIDE.pem``, ``SIDE-key.pem`` (readable by its owner
        alone) and ``dask.yaml``, a configuration that names them.
    hosts
        Names and addresses of further machines.
    days
        How long they are valid.

    Raises
    ------
    SystemExit
        If the folder cannot be written or holds certificates already.
    """
    folder = os.path.abspath(os.path.expanduser(folder))
    if any(os.path.exists(os.path.join(folder, side)) for side in SIDES):
        raise SystemExit(
            f"{folder} holds certificates already: remove them or name another folder; those in "
            "use keep working only with their own CA"
        )
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("vbflows development CA")
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, days, [_ca_only()])
    names = x509.SubjectAlternativeName([_host(host) for host in (*HOSTS, *hosts)])
    contents = {}
    for side in SIDES:
        key = ec.generate_private_key(ec.SECP256R1())
        extensions = [(x509.BasicConstraints(ca=False, path_length=None), True), (names, False)]
        made = _certificate(
            _name(f"vbflows {side}"), ca_name, key, ca_key, days, [*extensions, _both_ways()]
        )
        place = os.path.join(folder, side)
        contents[f"{side}/ca.pem"] = _pem(ca)
        contents[f"{side}/dask.yaml"] = _CONFIG.format(folder=place, side=side).encode()
        contents[f"{side}/{side}.pem"] = _pem(made)
        contents[f"{side}/{side}-key.pem"] = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    return _written(folder, contents)


def _written(folder: str, contents: dict[str, bytes]) -> list[str]:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for side in SIDES:
            os.mkdir(os.path.join(folder, side), mode=0o700)
        paths = []
        for name, content in contents.items():
            paths.append(os.path.join(folder, name))
            mode = 0o600 if name.endswith("-key.pem") else 0o644
            with open(os.open(paths[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
    except OSError as error:
        raise SystemExit(f"certificates cannot be written to {folder}: {error.strerror}") from error
    return paths


Extension = tuple[x509.ExtensionType, bool]


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
    extensions: Sequence[Extension],
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ a little
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
        )
    )
    for extension, critical in extensions:
        made = made.add_extension(extension, critical)
    return made.sign(signer, hashes.SHA256())


def _ca_only() -> Extension:
    return x509.BasicConstraints(ca=True, path_length=0), True


def _both_ways() -> Extension:
    """Every side of a cluster is a server to some and a client to others."""
    return x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    ), False


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError as error:
        raise SystemExit(f"{text!r} is neither an address nor the name of a host") from error


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def main() -> None:
    """Make them, and print the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--host", action="append", default=[], help="of a machine; may be repeated")
    parser.add_argument("--days", type=int, default=365, help="how long they are valid")
    given = parser.parse_args()
    sys.stdout.writelines(
        f"{path}\n" for path in make_certificates(given.folder, given.host, given.days)
    )


if __name__ == "__main__":
    main()
