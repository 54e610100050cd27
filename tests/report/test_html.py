"""Nothing of a user's gets into a page as markup."""

import json
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from equipoise.report.html import Html, element, embed_json, escape, join


class Reader(HTMLParser):
    """Collects what a browser would make of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.text, self.attributes = [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


names = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]))
contents = st.recursive(
    names | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(names, inner)
)


@given(names)
def test_a_name_stays_text_inside_an_element(name):
    read = Reader(element("p", name))
    assert read.tags == ["p"]
    assert read.text == name


@given(names)
def test_a_name_stays_one_attribute(name):
    read = Reader(element("p", title=name))
    assert read.attributes == [("title", name)]


@given(contents)
def test_data_for_the_script_cannot_end_it(content):
    written = embed_json("data", content)
    inside = written.removeprefix('<script type="application/json" id="data">')
    inside = inside.removesuffix("</script>")
    assert not set("<>&") & set(inside)
    assert json.loads(inside) == content


def test_numbers_that_json_does_not_know_become_null():
    written = embed_json("data", {"far": float("inf"), "none": [float("nan")]})
    assert '{"far":null,"none":[null]}' in written


def test_markup_is_not_escaped_twice():
    inner = element("b", "a & b")
    assert element("p", inner, " & c") == "<p><b>a &amp; b</b> &amp; c</p>"
    assert join([inner, "<"]) == "<b>a &amp; b</b>&lt;"
    assert isinstance(escape(Html("<i>")), Html)


def test_what_is_none_or_false_is_left_out():
    assert element("p", None, hidden=False, id=None, title="") == '<p title=""></p>'
    assert element("button", hidden=True) == "<button hidden></button>"
