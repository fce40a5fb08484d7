# ruff: noqa: E501
"""Invalid tables and schemas of all kinds: one sentence, exit code 1, nothing charged."""

from pathlib import Path

import pytest

from .conftest import BUDGET, history

GOOD = b"job,age,income\ncook,3,>50K\nnurse,50,<=50K\n"
FIT = ["--label", "income", *BUDGET, "--ledger", "people", "-o", "model.json", "--quiet"]


def hostile_tables():
    """Contents by what is wrong with them; the fit wants columns job, age and income."""
    head, *rows = GOOD.splitlines(keepends=True)
    body = b"".join(rows)
    yield from {
        "nothing": b"",
        "one newline": b"\n",
        "newlines": b"\n\n\n",
        "spaces": b"   \n",
        "header": head,
    }.items()
    for cell in (
        "old",
        "1,5",
        "0x1f",
        "1e",
        "--3",
        "1 2",
        "NaNN",
        "\u00bd",
        "\u0661\u0662",
        "1_000",
        "\x00",
        "'3'",
    ):
        yield f"age {cell!r}", head + f'cook,"{cell}",>50K\n'.encode()
    for cell in (
        "",
        "poet",
        "COOK",
        "cook\x00",
        "coo",
        "\ufeffcook",
        "cook'",
        "\U0001f600",
        "c" * 100_000,
        "NA",
    ):
        yield f"job {cell[:20]!r}", head + body + f'"{cell}",3,>50K\n'.encode()
    for cell in ("", "50K", ">50k", "NA", "null", "\x00", ">50K\u200b", ";", "1"):
        yield f"income {cell!r}", head + body + f'cook,3,"{cell}"\n'.encode()
    for cell in ("", "nan", "NA", "null", "N/A"):
        yield f"age {cell!r}", head + body + f"cook,{cell},>50K\n".encode()
    for name in (b"\xff\xfe\xfd", b"caf\xe9", b"\xc3\x28", b"\xed\xa0\x80"):
        yield f"no UTF-8 {name!r}", head + body + name + b",3,>50K\n"
        yield f"header no UTF-8 {name!r}", name + b"," + GOOD
    for cells in (
        b"cook",
        b"cook,3",
        b"cook,3,>50K,1",
        b",,,,,,,",
        b"cook,3,>50K,",
        b'"cook,3,>50K',
        b'cook"x"",3',
    ):
        yield f"line {cells!r}", GOOD + cells + b"\n"
        yield f"first line {cells!r}", head + cells + b"\n" + body
    for header in (b"job,age", b"job,age,income,income", b"job,job,age,income", b"age,income", b"a,b,c", b",,",
                   b"job;age;income", b"job,age,income,pay", b'"job,age,income', b"JOB,AGE,INCOME", b"job age income",
                   b"job,age,\x00income", b"job,age,income,", b"cook,3,>50K"):  # fmt: skip
        yield f"header {header!r}", header + b"\n" + body
    for codec in ("utf-16", "utf-16-be", "utf-32", "utf-16-le"):
        yield codec, GOOD.decode().encode(codec)
    yield from {
        "zeros": bytes(5000),
        "noise": bytes(range(256)) * 40,
        "gzip cut": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x4c",
        "gzip of nothing": b"\x1f\x8b",
        "bzip2 cut": b"BZh91AY&SY",
        "xz cut": b"\xfd7zXZ\x00\x00",
        "zstd cut": b"\x28\xb5\x2f\xfd\x04",
        "lz4 cut": b"\x04\x22\x4d\x18\x64",
        "zip": b"PK\x03\x04\x14\x00",
        "parquet": b"PAR1\x15\x04PAR1",
        "excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "json": b'[{"job": "cook", "age": 3, "income": ">50K"}]\n',
        "html": b"<html><table><tr><td>cook</td></tr></table></html>\n",
        "one huge line": b"x" * (1 << 20),
        "many columns": b",".join(b"c%d" % k for k in range(5000)) + b"\n",
        "line in a cell": GOOD + b'"cook\nnurse",3,>50K\n',
        "old ends of lines": GOOD.replace(b"\n", b"\r").replace(b"cook", b"poet"),
        "markdown": b"| job | age | income |\n|---|---|---|\n| cook | 3 | >50K |\n",
        "quote never ends": head + b'"' + body * 50,
        "tabs": GOOD.replace(b",", b"\t").replace(b"age", b"years"),
    }.items()


COLUMNS = '[[columns]]\nname = "age"\nlow = 0\nhigh = 100\n[[columns]]\nname = "job"\ncategories = ["cook", "nurse"]\n'


def hostile_schemas():
    """Texts by what is wrong with them."""
    yield from {
        "nothing": "", "name only": 'name = "x"', "no TOML": "columns = [", "JSON": '{"columns": []}', "NUL": "\x00",
        "csv": GOOD.decode(), "twice": "a = 1\na = 2", "no columns": "columns = []", "columns is text": 'columns = "age"',
        "columns is a table": "[columns]\nage = 1", "columns of numbers": "columns = [1, 2]", "unknown": COLUMNS + "x = 1",
        "learned is text": 'learned = "yes"\n' + COLUMNS, "name is a number": "name = 3\n" + COLUMNS,
        "ignored is text": 'ignored = "a"\n' + COLUMNS, "ignored a number": "ignored = 3\n" + COLUMNS,
        "nested": "a = " + "[" * 5000 + "]" * 5000, "nested tables": "a." * 3000 + "b = 1",
        "a long number": "a = " + "9" * 5000, "twice age": COLUMNS + COLUMNS, "missing age": COLUMNS.split("[[")[2].join(["[[", ""]),
        "two ignored": 'ignored = ["a", "a"]\n' + COLUMNS,
        "ignored of numbers": "ignored = [1]\n" + COLUMNS, "label only": '[[columns]]\nname = "income"\ncategories = ["a", "b"]',
    }.items()  # fmt: skip
    for entry in ("name = 3", "name = ''", "name = []", "name = true", "low = 'a'", "low = nan", "low = inf", "low = -inf",
                  "high = nan", "high = 0", "high = -5", "high = true", "high = []", "high = 1e400", "low = 1e999",
                  "high = 1e308\nlow = -1e308", "transform = 'log'", "transform = 3", "missing = 'none'", "missing = 500",
                  "missing = []", "missing = true", "bins = 1", "bins = 0", "bins = -3", "bins = 1000000000", "bins = 'a'",
                  "bins = [200]", "bins = [3, 2]", "bins = [nan]", "bins = []", "repeat = 0", "repeat = -1",
                  "repeat = 99999999999", "repeat = 'a'", "repeat = 1.5", "repeat = true", "type = 'text'", "type = 3",
                  "type = []", "type = 'categorical'", "colour = 'red'", "categories = ['a']", "low = 1979-05-27", "low = {}",
                  "low = 200", "transform = true", "bins = true", "bins = [1e400]", "unknown = 'zero'"):  # fmt: skip
        lines = {"name": "name = 'age'", "low": "low = 0", "high": "high = 100"}
        lines |= {line.partition(" ")[0]: line for line in entry.splitlines()}
        yield (
            f"number: {entry}",
            "[[columns]]\n" + "\n".join(lines.values()) + "\n" + "[[" + COLUMNS.split("[[")[2],
        )
    for entry in ("categories = []", "categories = 'cook'", "categories = 3", "categories = [1, 'a']", "categories = [1.5]",
                  "categories = ['cook', 'cook']", "categories = [[]]", "categories = [nan]", "categories = {}",
                  "categories = ['']", "unknown = 'ignore'", "unknown = 3", "unknown = 'poet'", "missing = 'column'",
                  "missing = 3", "type = 'numeric'", "name = ''", "low = 3", "repeat = 'x'", "colour = 1",
                  "categories = [true, 1]", "unknown = []", "missing = 'poet'", "bins = 3", "transform = 'log1p'",
                  f"categories = {[str(each) for each in range(70_000)]}"):  # fmt: skip
        lines = {"name": "name = 'job'", "categories": "categories = ['cook', 'nurse']"}
        lines |= {entry.partition(" ")[0]: entry}
        yield (
            f"category: {entry[:60]}",
            "[[" + COLUMNS.split("[[")[1] + "[[columns]]\n" + "\n".join(lines.values()) + "\n",
        )


@pytest.fixture
def refused(shell):
    shell("budget", "create", "people", "--epsilon", "3", "--delta", "1e-5", "--quiet")

    def check(words):
        result = shell(*words, code=1)
        assert isinstance(result.exception, SystemExit), words
        lines = [each for each in result.stderr.splitlines() if not each.startswith("dperm: warning:")]
        assert lines[0].startswith("dperm: "), lines
        assert len(lines) == 1, lines
        assert 15 < len(lines[0]) < 1500, lines
        assert not history()
        assert not Path("model.json").exists()
        return lines[0]

    return check


def test_tables(refused):
    Path("good.toml").write_text(COLUMNS + '[[columns]]\nname = "income"\ncategories = ["<=50K", ">50K"]\n')
    cases = list(hostile_tables())
    assert len(cases) >= 100
    for number, (what, content) in enumerate(cases):
        Path(f"case{number}.csv").write_bytes(content)
        print(what)
        print(refused(["fit", f"case{number}.csv", "--schema", "good.toml", *FIT]))


def test_schemas(refused):
    head, *rows = GOOD.splitlines(keepends=True)
    Path("good.csv").write_bytes(head + b"".join(rows) * 50)
    cases = list(hostile_schemas())
    assert len(cases) >= 100
    for what, text in cases:
        Path("case.toml").write_text(text)
        print(what)
        print(
            refused(["fit", "good.csv", "--schema", "case.toml", "--class", "<=50K", "--class", ">50K", *FIT])
        )
