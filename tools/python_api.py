#!/usr/bin/env python3
"""Writes python/ebb/_api.py, the interface of include/ebb.h as ctypes sees it: enums, structs, types of callbacks, functions. A test
compares the file with what this would write, so that it cannot go stale.

Usage: tools/python_api.py [--check]
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER, TARGET = ROOT / "include/ebb.h", ROOT / "python/ebb/_api.py"
PLAIN = {"void": "None", "int": "c_int", "int32_t": "c_int32", "int64_t": "c_int64", "uint8_t": "c_uint8", "uint32_t": "c_uint32", "uint64_t": "c_uint64",
         "size_t": "c_size_t", "double": "c_double", "char": "c_char", "ebb_value": "c_int32"}
# Text that is not ended by NUL, or that a caller may want as bytes.
RAW_TEXT = {"ebb_text_fn"}


def declarations(text):
    """The header without comments, preprocessor lines and what only compilers read."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    constants = dict(re.findall(r"^#define (EBB_[A-Z_]+) \(?(-?\d+)\)?\s*$", text, flags=re.M))
    statuses = re.findall(r"X\((EBB_[A-Z]+), (\d+), \"([^\"]*)\"\)", text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    text = text.replace('extern "C" {', "").replace("EBB_MUST_CHECK", "").replace("EBB_STATUS_LIST(EBB_STATUS_ENUM)", "")
    return constants, statuses, text


class Header:
    def __init__(self, text):
        self.constants, self.statuses, body = declarations(text)
        self.opaque = set(re.findall(r"typedef struct (\w+) \1;", body))
        self.enums = [(name, [item.split("=")[0].strip() for item in items.split(",") if item.strip()])
                      for items, name in re.findall(r"typedef enum \w+ \{(.*?)\} (\w+);", body, flags=re.S)]
        self.structs = [(name, [member.strip() for member in members.split(";") if member.strip()])
                        for members, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", body, flags=re.S)]
        self.callbacks = re.findall(r"typedef (\w+ ?\*?) ?\(\*(\w+)\)\((.*?)\);", body, flags=re.S)
        self.functions = re.findall(r"EBB_API\s+([\w\s]+?[\s*]+)(ebb_\w+)\((.*?)\)\s*;", body, flags=re.S)
        self.enum_names = {name for name, _ in self.enums}
        self.struct_names = {name for name, _ in self.structs}
        self.callback_names = {name for _, name, _ in self.callbacks}
        declared = len(re.findall(r"^EBB_API\b", text, flags=re.M))
        assert declared == len(self.functions), f"{declared} functions are declared, {len(self.functions)} understood"

    def type(self, declared, raw_text=False):
        """A type without its name, as ctypes has it."""
        words = declared.replace("const", " ").replace("struct", " ").split()
        base, stars = words[0].rstrip("*"), declared.count("*")
        if base == "char" and stars:
            one = "c_void_p" if raw_text else "c_char_p"
            return f"POINTER({one})" if stars == 2 else one
        if base in self.opaque or base == "void":
            return f"POINTER(c_void_p)" if stars == 2 else "c_void_p" if stars else "None"
        known = PLAIN.get(base) or ("c_int" if base in self.enum_names else base if base in self.struct_names | self.callback_names else None)
        assert known and stars < 2, declared
        return f"POINTER({known})" if stars else known

    def parameter(self, text, raw_text=False):
        return self.type(re.match(r"(.*?[\s*])\w*$", text.strip()).group(1) if not text.strip().endswith("*") else text, raw_text)

    def parameters(self, text, raw_text=False):
        return [] if text.strip() == "void" else [self.parameter(part, raw_text) for part in text.split(",")]

    def fields(self, members):
        for member in members:
            base, names = re.match(r"((?:const )?\w+)\s+(.*)$", member, flags=re.S).groups()
            for name in names.split(","):
                stars, name, room = re.match(r"\s*((?:\*|const\b|\s)*)(\w+)(?:\[(\w+)\])?", name).groups()
                one = self.type(base + " " + stars)
                yield name, f"{one} * {self.constants.get(room, room)}" if room else one


def render(header):
    out = ['"""The interface of include/ebb.h, written by tools/python_api.py: do not edit."""', "from __future__ import annotations", "",
           "from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8,", "                    c_uint32, c_uint64, c_void_p)",
           "from enum import IntEnum", "from typing import Any, Dict, Tuple", ""]
    out += [f"{name} = {value}" for name, value in header.constants.items()] + ["", "", "class Status(IntEnum):"]
    out += [f"    {name[4:]} = {value}  # {text}" for name, value, text in header.statuses]
    for name, items in header.enums:
        if name == "ebb_status":
            continue
        parts = name.split("_")[1:]
        prefix = {"log_level": "EBB_LOG_", "kind": "EBB_KIND_", "role": "EBB_ROLE_", "picture": "EBB_PICTURE_", "reduce": "EBB_REDUCE_"}.get("_".join(parts), "EBB_")
        out += ["", "", f"class {''.join(part.capitalize() for part in parts)}(IntEnum):"]
        out += [f"    {item[len(prefix):] if item.startswith(prefix) else item[4:]} = {i}" for i, item in enumerate(items)]
    for name, members in header.structs:
        out += ["", "", f"class {name}(Structure):", "    _fields_ = ["]
        out += [f'        ("{field}", {kind}),' for field, kind in header.fields(members)] + ["    ]"]
    out += ["", ""]
    for result, name, parameters in header.callbacks:
        out.append(f"{name} = CFUNCTYPE({', '.join([header.type(result)] + header.parameters(parameters, name in RAW_TEXT))})")
    out += ["", "# Result and parameters of every function.", "FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {"]
    for result, name, parameters in header.functions:
        kinds = header.parameters(parameters)
        out.append(f'    "{name}": ({header.type(result)}, ({", ".join(kinds)}{"," if len(kinds) == 1 else ""})),')
    return "\n".join(out + ["}", ""])


def main():
    wanted = render(Header(HEADER.read_text()))
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text() == wanted
        print("_api.py is that of ebb.h" if same else "_api.py is not that of ebb.h: run tools/python_api.py")
        return 0 if same else 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
