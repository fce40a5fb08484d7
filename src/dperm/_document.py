"""Documents of paragraphs, tables and pictures, rendered as HTML or Markdown. Text is always escaped.

HTML is built as an element tree, so that text cannot become markup; in Markdown it is escaped.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

_MARKUP = re.compile(r"([\\`*_<>|\[\]&#~])")
_LIST = re.compile(r"^(\d*)([-+=.)])(?=[-=]*(?: |$))")
_NUMBER = {"class": "number"}
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

#: Content security policy: the page loads no external resources, whatever it contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
.dperm { font-family: system-ui, sans-serif; line-height: 1.5; max-width: 62em; }
.dperm h1 { font-size: 1.7em; line-height: 1.25; margin: 0 0 .4em; }
.dperm h2 { font-size: 1.25em; margin: 2em 0 .5em; padding-bottom: .2em; border-bottom: 1px solid #8886; }
.dperm h3 { font-size: 1em; margin: 1.4em 0 .3em; }
.dperm p { margin: .5em 0; max-width: 52em; text-align: left; }
.dperm .good, .dperm .warning { border-left: .35em solid #2e7d32; background: #2e7d3214; padding: .6em .9em; }
.dperm .warning { border-color: #c62828; background: #c6282814; }
.dperm .formula { font-family: 'Cambria Math', 'STIX Two Math', serif; font-size: 1.1em; padding-left: 2em; }
.dperm .small, .dperm caption { font-size: .85em; opacity: .8; }
.dperm .scroll { overflow-x: auto; }
.dperm table { border-collapse: collapse; margin: .6em 0; font-size: .92em; }
.dperm caption { caption-side: bottom; text-align: left; padding-top: .4em; }
.dperm th, .dperm td { padding: .25em .9em .25em 0; text-align: left; vertical-align: top;
  unicode-bidi: isolate; border-bottom: 1px solid #8883; overflow-wrap: break-word; }
.dperm .number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.dperm img { max-width: 100%; height: auto; background: #fff; }
.dperm nav { font-size: .9em; }
.dperm nav a { margin-right: 1.2em; white-space: nowrap; }
@media print { .dperm h2 { break-after: avoid; } .dperm img, .dperm tr { break-inside: avoid; } }
"""
_PAGE_STYLE = (
    "body { margin: 2.5em auto; padding: 0 1.5em; max-width: 62em; color: #1b1b1b; background: #fff; }"
)


@dataclass(frozen=True)
class Link:
    """A hyperlink. The address must be trusted: it is not checked."""

    text: str
    address: str

    def html(self) -> Element:
        """As an element."""
        return _element("a", self.text, href=self.address, rel="noreferrer noopener")

    def markdown(self) -> str:
        """As a link."""
        return f"[{escaped(self.text)}]({self.address})"


@dataclass(frozen=True)
class Text:
    """A paragraph.

    Attributes
    ----------
    text : str
    tone : {"", "good", "warning", "formula", "small"}
    link : Link, optional
        Shown after the text.
    """

    text: str
    tone: str = ""
    link: Link | None = None

    def html(self) -> Element:
        """As an element."""
        paragraph = _element("p", self.text, **({"class": self.tone} if self.tone else {}))
        if self.link is not None:
            paragraph.text += " "  # type: ignore[operator]
            paragraph.append(self.link.html())
        return paragraph

    def markdown(self) -> str:
        """As a paragraph; good news and warnings as a block quote."""
        link = "" if self.link is None else f" {self.link.markdown()}"
        return f"{'> ' if self.tone in ('good', 'warning') else ''}{escaped(self.text)}{link}"


@dataclass(frozen=True)
class Table:
    """A table; a cell is a text, a number, a `Link`, or None for nothing.

    Attributes
    ----------
    columns : sequence of str
        Column headings; all empty for a table without a header row.
    rows : sequence of sequences
    caption : str
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    def html(self) -> Element:
        """As an element with its own scroll bar where it is too wide."""
        outer = Element("div", {"class": "scroll"})
        table = SubElement(outer, "table")
        if self.caption:
            table.append(_element("caption", self.caption))
        if any(self.columns):
            head = SubElement(table, "tr")
            for place, name in enumerate(self.columns):
                numbers = all(_is_number(row[place]) or row[place] is None for row in self.rows)
                head.append(_element("th", name, **_NUMBER if numbers else {}))
        for row in self.rows:
            SubElement(table, "tr").extend(map(_cell, row))
        return outer

    def markdown(self) -> str:
        """As a pipe table."""
        rows = [self.columns, *self.rows]
        lines = [f"| {' | '.join(map(_markdown_cell, row))} |" for row in rows]
        lines.insert(1, f"|{' --- |' * len(self.columns)}")
        return "\n".join([*lines, *(["", escaped(self.caption)] if self.caption else [])])


@dataclass(frozen=True)
class Picture:
    """An embedded picture.

    Attributes
    ----------
    svg : bytes
    words : str
        Alternative text.
    """

    svg: bytes
    words: str

    def html(self) -> Element:
        """As an ``<img>`` element: browsers run no scripts of an SVG there."""
        data = base64.b64encode(self.svg).decode("ascii")
        return Element("img", {"src": f"data:image/svg+xml;base64,{data}", "alt": _plain(self.words)})

    def markdown(self) -> str:
        """The alternative text: Markdown embeds no pictures."""
        return escaped(f"(Picture: {self.words})")


Block = Text | Table | Picture


@dataclass(frozen=True)
class Section:
    """Blocks under a heading.

    Attributes
    ----------
    title : str
    blocks : sequence of Text, Table and Picture
    level : int
        Heading level.
    """

    title: str
    blocks: Sequence[Block]
    level: int = 2


@dataclass(frozen=True)
class Document:
    """A title, a lead and sections.

    Attributes
    ----------
    title : str
    lead : sequence of Text, Table and Picture
    sections : sequence of Section
    """

    title: str
    lead: Sequence[Block]
    sections: Sequence[Section] = ()

    def to_html(self) -> str:
        """A self-contained page."""
        page = Element("html", {"lang": "en"})
        head = SubElement(page, "head")
        SubElement(head, "meta", {"charset": "utf-8"})
        SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
        SubElement(head, "meta", {"name": "viewport", "content": "width=device-width"})
        head.append(_element("title", self.title))
        head.append(_element("style", _PAGE_STYLE))
        SubElement(page, "body").append(self._body(contents=True))
        return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"

    def to_fragment(self) -> str:
        """HTML to embed in another page, such as a notebook."""
        return tostring(self._body(contents=False), encoding="unicode", method="html")

    def to_markdown(self) -> str:
        """As Markdown."""
        parts = [f"# {escaped(self.title)}", *(block.markdown() for block in self.lead)]
        for each in self.sections:
            parts.append(f"{'#' * each.level} {escaped(each.title)}")
            parts += [block.markdown() for block in each.blocks]
        return "\n\n".join(parts) + "\n"

    def _body(self, contents: bool) -> Element:
        body = Element("div", {"class": "dperm"})
        body.append(_element("style", _STYLE))
        if self.title:
            body.append(_element("h1", self.title))
        body.extend(block.html() for block in self.lead)
        if contents and len(self.sections) > 2:
            body.append(self._contents())
        for place, each in enumerate(self.sections):
            body.append(_element(f"h{each.level}", each.title, **({"id": f"s{place}"} if contents else {})))
            body.extend(block.html() for block in each.blocks)
        return body

    def _contents(self) -> Element:
        nav = Element("nav")
        for place, each in enumerate(self.sections):
            if each.level == 2:
                nav.append(_element("a", each.title, href=f"#s{place}"))
                nav[-1].tail = " "
        return nav


def facts(values: Mapping[str, Any]) -> Table:
    """A table of names and values, from a mapping."""
    return Table(["", ""], [[name.replace("_", " "), _shown(value)] for name, value in values.items()])


def escaped(text: str) -> str:
    """The text on one line, with everything escaped that Markdown would interpret."""
    return _LIST.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", " ".join(_plain(text).split())))


def _element(_tag: str, _text: str, **attributes: str) -> Element:
    element = Element(_tag, attributes)
    element.text = _plain(_text)
    return element


def _cell(value: Any) -> Element:
    if isinstance(value, Link):
        cell = Element("td")
        cell.append(value.html())
        return cell
    return _element("td", _shown(value), **_NUMBER if _is_number(value) else {})


def _markdown_cell(value: Any) -> str:
    if isinstance(value, Link):
        return value.markdown()
    return escaped(_shown(value))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(text: str) -> str:
    """The text with characters that are invalid in HTML replaced."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
