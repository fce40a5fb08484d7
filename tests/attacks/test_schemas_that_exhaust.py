"""An untrusted schema.

A TOML file asks for 10^9 columns, nests a hundred thousand lists, or contains a number with thousands of
digits: it is refused with a one-sentence error, and does not exhaust memory.
"""

import pytest

from dperm import Schema

COLUMN = '[[columns]]\nname = "a"\ntype = "numeric"\nlow = 0\nhigh = 1\n'
CASES = {
    "repeat": (f"{COLUMN}repeat = 1000000000", "repeat must be an integer from 1 to 1,000,000"),
    "unknown key": (f"{COLUMN}lo = 3", r"unknown: \['lo'\]"),
    "unknown key of the schema": (f"foo = 1\n{COLUMN}", "unknown entries: foo"),
    "nesting": (f"x = {'[' * 100_000}{']' * 100_000}", "nested too deeply"),
    "digits": (COLUMN.replace("high = 1", f"high = {'9' * 5000}"), "not TOML"),
    "not a text": ("\x00\x01", "not TOML"),
    "a name that is a list": (COLUMN.replace('"a"', '["a"]', 1), "must be a nonempty string"),
}


@pytest.mark.parametrize("case", CASES)
def test_hostile_schemas_are_refused_with_a_short_message(case):
    text, words = CASES[case]
    with pytest.raises(ValueError, match=words) as caught:
        Schema.from_text(text)
    assert len(str(caught.value)) < 300
