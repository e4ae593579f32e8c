"""`tree`: the root element of an XML file, read as safely as possible and as leniently as other engines read it."""

import re
from typing import Any

from lxml import etree

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
#: size in bytes above which the elements of a file may not nest deeply
LARGE = 50_000_000
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_LATE_DECLARATION = re.compile(rb"\A(\s+)(<\?xml[^>]*\?>)")
#: the version in a declaration: PyBullet's files say 0.0
_VERSION = re.compile(rb"\A(\s*<\?xml\s+version\s*=\s*[\"'])[^\"']*")
#: what is wrong with prefixes without a namespace, and with ``::`` in names
PREFIXES = ("NS_ERR_UNDEFINED_NAMESPACE", "NS_ERR_QNAME")
#: an ampersand that begins no entity
_AMPERSAND = re.compile(rb"&(?!#?\w+;)")


def without_declaration(text: str) -> str:
    """Return a text without its declaration, which may name another encoding; its lines keep their numbers."""
    return _DECLARATION.sub(lambda m: "\n" * m.group().count("\n"), text)


def tree(data: bytes, url: str) -> Any:
    """Return the root element of an XML file; entities, external files and huge trees are disabled.

    Files that XML forbids and that other engines read are read too: with ``--`` or another encoding in comments,
    ampersands that begin no entity, white space before the declaration, unknown versions of XML, and prefixes without
    a namespace, such as ``gz:`` and ``drake:``.

    **Raises** `etree.XMLSyntaxError` and `LookupError`.
    """
    try:
        return _nested(data, url)
    except etree.XMLSyntaxError:
        mended = _mended(data)
        root = _unbound(mended, url)
        if root is not None:
            return root
        if mended == data:
            raise
        try:
            return _nested(mended, url)
        except etree.XMLSyntaxError:
            pass
        raise  # the error is about the file as it is


def _nested(data: bytes, url: str) -> Any:
    """Return the root element of a file, which may nest deeply only if it is MJCF."""
    try:
        return etree.fromstring(data, parser_of(), base_url=url)
    except etree.XMLSyntaxError as error:
        # chains of bodies nest deeply in MJCF; without a DOCTYPE (in UTF-8) there are no entities to expand
        if "depth" not in (error.msg or "") or len(data) > LARGE or b"<!DOCTYPE" in data:
            raise
        root = etree.fromstring(_plain(data), parser_of(huge_tree=True), base_url=url)
        if root.tag != "mujoco":
            raise
        return root


def parser_of(**options: bool) -> etree.XMLParser:
    """Return a parser that expands no entities and reads no other files."""
    return etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        dtd_validation=False,
        no_network=True,
        remove_comments=True,
        remove_pis=True,
        **options,
    )


def _plain(data: bytes) -> bytes:
    """Return a file in UTF-8 without its declaration. Replace bytes that are not UTF-8."""
    return _DECLARATION.sub("", data.decode("utf-8-sig", "replace")).encode()


def _mended(data: bytes) -> bytes:
    """Return a file without its comments, with ampersands that are text, and with its declaration first. All lines keep
    their numbers."""
    data = _COMMENT.sub(lambda m: b"\n" * m.group().count(b"\n"), data)
    data = _VERSION.sub(rb"\g<1>1.0", _LATE_DECLARATION.sub(rb"\2\1", data))
    # a DOCTYPE may declare entities, which are an error
    return data if b"<!DOCTYPE" in data else _AMPERSAND.sub(b"&amp;", data)


def _unbound(data: bytes, url: str) -> Any:
    """Return the root element of a file in which nothing is wrong but prefixes without a namespace, else None. The
    prefixes stay in the names of tags."""
    parser = parser_of(recover=True)
    root = etree.fromstring(data, parser, base_url=url)
    return root if root is not None and all(e.type_name in PREFIXES for e in parser.error_log) else None
