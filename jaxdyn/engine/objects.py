"""Object files: joins several into one, and finds the names that one needs.

A loader maps every object file separately: a program in twenty files would take forty memory maps. After joining, it
takes as few as a program in one file. This module only understands the parts of ELF of 64 bits (Linux and most others)
that LLVM writes for functions and constants; it leaves any other file as it is.
"""

import dataclasses
import struct

import numpy as np

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_RELA = np.dtype([("at", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

_PROGBITS, _SYMTAB, _STRTAB, _RELAS, _NOBITS, _REL, _GROUP, _MORE_SECTIONS = 1, 2, 3, 4, 8, 9, 17, 18
_UNWIND = 0x70000001
_ALLOC, _INFO_LINK = 2, 0x40
_ABSOLUTE, _SPECIAL = 0xFFF1, 0xFF00
_OF_SECTION, _OF_FILE = 3, 4


class _Unknown(Exception):
    """Raised if a file has a part that this module does not understand."""


@dataclasses.dataclass
class _Section:
    name: bytes
    type: int
    flags: int
    align: int
    entry: int
    data: bytes
    size: int
    link: int
    info: int


@dataclasses.dataclass
class _Output:
    """A section of the joined file."""

    first: _Section
    index: int
    align: int = 1
    size: int = 0
    data: bytearray = dataclasses.field(default_factory=bytearray)
    relas: list[np.ndarray] = dataclasses.field(default_factory=list)

    def add(self, section: _Section) -> int:
        """Append a section, and return where it begins in the joined section."""
        at = -(-self.size // section.align) * section.align
        self.align, self.size = max(self.align, section.align), at + section.size
        if section.type != _NOBITS:
            self.data += bytes(at - len(self.data)) + section.data
        return at


def _name(table: bytes, at: int) -> bytes:
    return table[at : table.index(b"\0", at)]


def _sections(data: bytes) -> list[_Section]:
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < _HEADER.size:
        raise _Unknown
    header = _HEADER.unpack_from(data)
    at, count, names = header[6], header[12], header[13]
    raw = [_SECTION.unpack_from(data, at + k * _SECTION.size) for k in range(count)]
    table = data[raw[names][4] : raw[names][4] + raw[names][5]]
    made = []
    for name, type_, flags, _, offset, size, link, info, align, entry in raw:
        content = b"" if type_ == _NOBITS else data[offset : offset + size]
        made.append(_Section(_name(table, name), type_, flags, max(align, 1), entry, content, size, link, info))
    return made


def _symbols(sections: list[_Section]) -> tuple[np.ndarray, bytes]:
    """Return the table of symbols, and the table of their names."""
    for section in sections:
        if section.type == _SYMTAB:
            return np.frombuffer(section.data, _SYMBOL).copy(), sections[section.link].data
    return np.zeros(1, _SYMBOL), b"\0"


def undefined(data: bytes) -> list[str] | None:
    """Return the names that an object file expects from elsewhere, or None if the file cannot be read."""
    try:
        symbols, names = _symbols(_sections(data))
    except (_Unknown, struct.error, ValueError, IndexError):
        return None
    return [_name(names, s["name"]).decode() for s in symbols[symbols["section"] == 0] if s["name"]]


def joined(objects: list[bytes]) -> list[bytes]:
    """Return one object file with the content of all, or `objects` themselves if they cannot be joined.

    Raises ValueError if two of them define the same name.
    """
    if len(objects) < 2:
        return objects
    try:
        return [_join(objects)]
    except (_Unknown, struct.error, IndexError):
        return objects


def _join(objects: list[bytes]) -> bytes:
    outputs: dict[tuple, _Output] = {}
    names = bytearray(b"\0")
    locals_, globals_, places = [np.zeros(1, _SYMBOL)], [], {}
    pending = []
    for data in objects:
        sections = _sections(data)
        if any(s.type in (_REL, _GROUP, _MORE_SECTIONS) for s in sections):
            raise _Unknown
        where: dict[int, tuple[_Output, int]] = {}
        for k, section in enumerate(sections):
            if section.flags & _ALLOC:
                if section.type not in (_PROGBITS, _NOBITS, _UNWIND):
                    raise _Unknown
                key = (section.name, section.type, section.flags, section.entry)
                output = outputs.setdefault(key, _Output(section, len(outputs) + 1))
                where[k] = output, output.add(section)
        symbols, table = _symbols(sections)
        # numbers of symbols in the joined file; a global symbol has -1 - its number among the global ones
        numbers = np.full(len(symbols), np.iinfo(np.int64).min)
        for k, symbol in enumerate(symbols):
            kind, section = symbol["info"] & 15, int(symbol["section"])
            if k == 0 or kind == _OF_FILE or (0 < section < _SPECIAL and section not in where):
                continue
            if section >= _SPECIAL and section != _ABSOLUTE:
                raise _Unknown
            name = _name(table, symbol["name"])
            if section in where:
                output, offset = where[section]
                symbol["section"] = output.index
                symbol["at"] += np.uint64(offset)
            if symbol["info"] >> 4 == 0:
                if kind == _OF_SECTION:  # the symbol of a section now stands for a part of the joined section
                    symbol["info"], name = 0, b".part%d" % len(locals_)
                numbers[k] = len(locals_)
                locals_.append(symbol)
            elif name not in places:
                numbers[k] = -1 - len(globals_)
                places[name] = len(globals_)
                globals_.append(symbol)
            else:
                place = places[name]
                numbers[k] = -1 - place
                if section and globals_[place]["section"]:
                    raise ValueError(f"two object files define {name.decode()}")
                if section:
                    symbol["name"] = globals_[place]["name"]
                    globals_[place] = symbol
                continue
            symbol["name"] = len(names)
            names += name + b"\0"
        for section in sections:
            if section.type == _RELAS and section.info in where:
                output, offset = where[section.info]
                relas = np.frombuffer(section.data, _RELA).copy()
                relas["at"] += np.uint64(offset)
                pending.append((output, relas, numbers[relas["symbol"]]))
    for output, relas, numbers in pending:
        if (numbers == np.iinfo(np.int64).min).any():
            raise _Unknown
        relas["symbol"] = np.where(numbers >= 0, numbers, len(locals_) - 1 - numbers)
        output.relas.append(relas)
    table = np.array([*(np.asarray(s).reshape(()) for s in locals_[1:]), *globals_], _SYMBOL)
    return _write(objects[0], list(outputs.values()), np.concatenate([locals_[0], table]), len(locals_), bytes(names))


def _write(model: bytes, outputs: list[_Output], symbols: np.ndarray, first_global: int, names: bytes) -> bytes:
    """Return the joined file, with the header of `model`."""
    titles, headers = bytearray(b"\0"), [bytes(_SECTION.size)]
    file = bytearray(_HEADER.size)
    table = len(outputs) + sum(bool(o.relas) for o in outputs) + 1

    def section(name: bytes, type_: int, flags: int, data: bytes, size: int, align: int, entry=0, link=0, info=0):
        file.extend(bytes(-len(file) % align))
        headers.append(_SECTION.pack(len(titles), type_, flags, 0, len(file), size, link, info, align, entry))
        titles.extend(name + b"\0")
        file.extend(data)

    for o in outputs:
        section(o.first.name, o.first.type, o.first.flags, o.data, o.size, o.align, o.first.entry)
    for o in outputs:
        if o.relas:
            data = np.concatenate(o.relas).tobytes()
            section(b".rela" + o.first.name, _RELAS, _INFO_LINK, data, len(data), 8, _RELA.itemsize, table, o.index)
    data = symbols.tobytes()
    section(b".symtab", _SYMTAB, 0, data, len(data), 8, _SYMBOL.itemsize, table + 1, first_global)
    section(b".strtab", _STRTAB, 0, names, len(names), 1)
    titles_at = len(titles)
    titles.extend(b".shstrtab\0")
    headers.append(_SECTION.pack(titles_at, _STRTAB, 0, 0, len(file), len(titles), 0, 0, 1, 0))
    file.extend(titles)
    file.extend(bytes(-len(file) % 8))
    header = list(_HEADER.unpack_from(model))
    header[6], header[12], header[13] = len(file), len(headers), len(headers) - 1
    _HEADER.pack_into(file, 0, *header)
    return bytes(file) + b"".join(headers)
