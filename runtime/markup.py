"""HTML and SVG, made as a tree: whatever a text says, it stays a text."""

import re
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""What neither HTML nor XML can say, and what would have the text around it read backwards."""


def add(parent: Element, tag: str, text: str = "", **attributes: str | float) -> Element:
    """Append an element; `class_` stands for class, `_` for a dash, and numbers are coordinates."""
    named = {name.rstrip("_").replace("_", "-"): _said(it) for name, it in attributes.items()}
    made = SubElement(parent, tag, named)
    made.text = _CONTROL.sub("\ufffd", text)
    return made


def document(root: Element) -> str:
    """Return an HTML page as text."""
    indent(root, " ")
    return f"<!doctype html>\n{tostring(root, encoding='unicode', method='html')}\n"


def _said(value: str | float) -> str:
    if isinstance(value, str):
        return _CONTROL.sub("\ufffd", value)
    return f"{value:.1f}".removesuffix(".0")
