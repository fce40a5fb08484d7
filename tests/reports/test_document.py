"""Pages are self-contained: no text becomes markup, and nothing is loaded."""

from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dperm._document import Document, Link, Picture, Section, Table, Text, facts

ATTACKS = [
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) ![x](http://evil.example/a.png) <http://evil.example>",
    "&lt;script&gt; `code` | cell | * _em_ ~~out~~ # heading",
    "a\x00b\ud800c\u202ed\r\n\n# new line",
    "1. list",
    "- list",
]
OWN = {"html", "head", "meta", "title", "style", "body", "div", "h1", "h2", "h3", "p", "nav", "a", "img"}
OWN |= {"table", "caption", "tr", "th", "td"}


class Reader(HTMLParser):
    """Elements with their attributes, and the text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.words = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data


def document(*texts):
    """Each text in every place for text."""
    blocks = [block for each in texts for block in (
        Text(each), Text(each, "warning"), Picture(b"<svg/>", each), facts({each: each}),
        Table([each, "n"], [[each, 1.5], [None, True], [Link("source", "https://example.org"), each]], each),
    )]  # fmt: skip
    return Document(texts[0], blocks, [Section(each, blocks, level) for each in texts for level in (2, 3)])


def is_inert(page, links=("https://example.org",)):
    """Whether a page has only known elements that run and load nothing, and only the given links."""
    for tag, attributes in Reader(page).elements:
        assert tag in OWN
        assert not any(name.startswith("on") for name in attributes)
        assert set(attributes) <= {"class", "href", "src", "alt", "id", "lang", "charset", "content", "name",
                                   "rel", "http-equiv"}  # fmt: skip
        assert "src" not in attributes or attributes["src"].startswith("data:image/svg+xml;base64,")
        assert attributes.get("href", "#").startswith("#") or attributes["href"] in links
    return True


def test_attacks_are_texts():
    page, fragment = document(*ATTACKS).to_html(), document(*ATTACKS).to_fragment()
    assert is_inert(page)
    assert is_inert(fragment)
    assert "default-src 'none'" in page
    for attack in ATTACKS[:4]:
        assert attack in Reader(page).words


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=()), min_size=1, max_size=30), min_size=1, max_size=2)
)
def test_any_text_is_text(texts):
    assert is_inert(document(*texts).to_html().encode("utf-8").decode("utf-8"))


def test_markdown_shows_every_text_as_it_is():
    """Rendered by another program, with HTML enabled."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    page = Reader(parser.render(document(*ATTACKS).to_markdown()))
    tags = {tag for tag, _ in page.elements}
    assert tags <= {"h1", "h2", "h3", "p", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "a"}
    assert {each["href"] for tag, each in page.elements if tag == "a"} == {"https://example.org"}
    for attack in ATTACKS[:4]:
        assert attack in page.words


def test_numbers_are_aligned_and_named():
    table = Table(["name", "number"], [["a", 0.1], ["b", None]], "all")
    page = Reader(Document("", [table]).to_fragment())
    cells = [(tag, each.get("class")) for tag, each in page.elements if tag in ("th", "td")]
    assert cells == [
        ("th", None),
        ("th", "number"),
        ("td", None),
        ("td", "number"),
        ("td", None),
        ("td", None),
    ]
    assert table.markdown() == "| name | number |\n| --- | --- |\n| a | 0.1 |\n| b |  |\n\nall"
