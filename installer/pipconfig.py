"""pip's settings, said in uv's words.

uv reads none of pip's configuration, so a person whose pip works (a company index, a folder of wheels, a proxy, a certificate)
would find that the launcher does not. The files are read here and not through `pip config list`, as many systems have no pip.
"""

import configparser
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LISTS = ("extra-index-url", "find-links", "trusted-host")
NAMES = ("index-url", "proxy", "cert", "timeout", "no-index", *LISTS)


class UvWords(NamedTuple):
    """Command line words and environment variables for uv. Sources are words: a path may hold the very character that separates
    paths in a variable."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


def config_files(environ: Mapping[str, str], platform: str = sys.platform, prefix: str = sys.prefix) -> list[str]:
    """pip's configuration files, weakest first."""
    user = environ.get("HOME") or os.path.expanduser("~")
    if platform == "win32":
        name = "pip.ini"
        shared = [os.path.join(environ.get("PROGRAMDATA", r"C:\ProgramData"), "pip")]
        own = [os.path.join(user, "pip"), os.path.join(environ.get("APPDATA", os.path.join(user, "AppData", "Roaming")), "pip")]
    else:
        name = "pip.conf"
        config = environ.get("XDG_CONFIG_HOME") or os.path.join(user, ".config")
        shared = [os.path.join(base, "pip") for base in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if base]
        own = [os.path.join(user, ".pip"), os.path.join(config, "pip")]
        if platform == "darwin":
            shared = [os.path.join("/Library/Application Support", "pip")]
            own = [own[0], own[1], os.path.join(user, "Library", "Application Support", "pip")]
        else:
            shared.append("/etc")
    files = [os.path.join(folder, name) for folder in (*shared, *own, prefix)]
    extra = environ.get("PIP_CONFIG_FILE")
    if extra == os.devnull:
        return []
    return [*files, extra] if extra else files


def read_files(files: Sequence[str]) -> dict[str, str]:
    """The settings of `pip install` in these files; later files win, and [install] wins over [global] as in pip."""
    settings: dict[str, str] = {}
    for section in ("global", "install"):
        for path in files:
            parser = configparser.RawConfigParser()
            try:
                parser.read(path, encoding="utf-8")
            except (configparser.Error, UnicodeDecodeError, OSError):
                continue  # pip itself will complain about it; the launcher can still try without.
            if parser.has_section(section):
                settings.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    return settings


def settings(environ: Mapping[str, str], files: Sequence[str]) -> dict[str, str]:
    """Files and `PIP_…` variables together; a variable wins over the files, as in pip."""
    known = read_files(files)
    for name in NAMES:
        value = environ.get("PIP_" + name.upper().replace("-", "_"))
        if value:
            known[name] = value
    return {name: value for name, value in known.items() if name in NAMES and value.strip()}


def entries(value: str) -> list[str]:
    """A list setting's entries. They are separated by white space, yet a single folder may well have a space in its name."""
    found: list[str] = []
    for line in value.splitlines():
        whole = line.strip()
        if whole and (os.path.exists(whole) or " " not in whole):
            found.append(whole)
        else:
            found.extend(whole.split())
    return found


def present(source: str) -> bool:
    """pip skips a local index that is not there; uv would stop."""
    parts = urlsplit(source)
    path = unquote(parts.path)
    if re.match(r"/[A-Za-z]:", path):
        path = path[1:]  # file:///C:/wheels
    return parts.scheme != "file" or os.path.exists(path)


def uv_sources(known: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Indexes and wheel folders as uv words. Whatever the person told uv itself stands and is not said twice."""
    words: list[str] = []
    if "index-url" in known and not (environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")):
        words += ["--default-index", known["index-url"].strip()]
    extra = [url for url in entries(known.get("extra-index-url", "")) if present(url)]
    if extra and not (environ.get("UV_INDEX") or environ.get("UV_EXTRA_INDEX_URL")):
        for url in extra:
            words += ["--index", url]
        if not environ.get("UV_INDEX_STRATEGY"):
            # pip looks at all indexes for the version it wants; uv's default would stop at the first that has any version.
            words += ["--index-strategy", "unsafe-best-match"]
    # A word replaces uv's variable, so the variable's folders are repeated here.
    links = [link for link in environ.get("UV_FIND_LINKS", "").split(",") if link.strip()]
    links += [link for link in entries(known.get("find-links", "")) if link not in links]
    for link in links:
        if "://" in link or os.path.isdir(link) or os.path.isfile(link):
            words += ["--find-links", link]
    if known.get("no-index", "").strip().lower() in ("1", "true", "yes", "on"):
        words.append("--no-index")
    for host in entries(known.get("trusted-host", "")):
        words += ["--allow-insecure-host", host]
    return words


def uv_words(environ: Mapping[str, str], files: Sequence[str] | None = None) -> UvWords:
    known = settings(environ, config_files(environ) if files is None else files)
    variables: dict[str, str] = {}
    if "cert" in known and not environ.get("SSL_CERT_FILE") and os.path.isfile(known["cert"].strip()):
        variables["SSL_CERT_FILE"] = known["cert"].strip()
    if "timeout" in known and not environ.get("UV_HTTP_TIMEOUT") and known["timeout"].strip().isdigit():
        variables["UV_HTTP_TIMEOUT"] = known["timeout"].strip()
    if "proxy" in known:
        for name in ("HTTPS_PROXY", "HTTP_PROXY"):
            if not (environ.get(name) or environ.get(name.lower())):
                variables[name] = known["proxy"].strip()
    return UvWords(tuple(uv_sources(known, environ)), variables)
