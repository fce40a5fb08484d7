"""The public description of a table, and how it turns records into a design matrix."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm._document import Document, Text
from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.draft import draft_columns
from dperm.data.schema.overview import schema_blocks
from dperm.data.schema.table_columns import n_rows, read_columns
from dperm.data.schema.toml_format import DRAFT, columns_from_entries, table_of, toml_table, toml_text
from dperm.data.tabular import TabularLayout, TabularMatrix

if TYPE_CHECKING:  # accounting is heavy, and a schema can be read without it
    from dperm.accounting.ledger.privacy_ledger import PrivacyLedger

#: Largest integer of each integer type of the numeric block: it stands for 1.
_LEVELS = {"float32": 0, "float64": 0, "uint8": 255, "uint16": 65_535}
_SHOWN_COLUMNS = 6  # in a repr
_BLOCK_ROWS = 8192  # a block of the result stays in cache while its columns are written

#: What learns a schema. It takes noise and a ledger, in layers that know this one: the only way up, taken
#: when it is asked for, and known to `tests/packaging/test_layers.py`.
LEARNING = "dperm.schema_learning"


@dataclass(frozen=True, repr=False)
class Schema:
    """What is public about the columns of a table, fixed before its records are read.

    It turns every record into a row of a design matrix by itself: nothing is learned from the data, and the
    norm of a row is bounded in advance.

    Parameters
    ----------
    columns : sequence of Numeric and Categorical
        In the order of the columns of the design matrix; a table may have them in any order.
    name : str
        Named in privacy statements.
    ignored : sequence of str
        Columns that a table may have and that are not used. Any other column that is not described is an
        error: a forgotten column should not go unnoticed.

    Raises
    ------
    ValueError
        For a description that makes no sense.

    Examples
    --------
    >>> import numpy as np
    >>> schema = Schema([Numeric("age", 0, 100), Categorical("colour", ["red", "green"], unknown="zero")])
    >>> X = schema.encode({"age": np.array([50, 120]), "colour": np.array(["green", "blue"])})
    >>> X.to_dense()
    array([[0.5, 0. , 1. ],
           [1. , 0. , 0. ]])
    >>> schema.row_norm(fit_intercept=False) ** 2  # an age of 100 and a colour
    2.0000000000000004
    """

    columns: Sequence[SchemaColumn]
    name: str = ""
    ignored: Sequence[str] = ()
    _is_draft: bool = field(default=False, init=False, repr=False, compare=False)
    _learned: Mapping[str, Any] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "ignored", tuple(self.ignored))
        for column in self.columns:
            if not isinstance(column, Numeric | Categorical):
                raise ValueError(f"columns must be Numeric or Categorical, got {column!r}")
        if not self.columns:
            raise ValueError(f"schema {self.name!r} has no columns")
        _check_unique(f"schema {self.name!r} names a column twice", [*self.column_names, *self.ignored])
        _check_unique(f"schema {self.name!r} names two features alike", self.feature_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of a table."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix: ``"age"``, or ``"sex=Male"`` for a category."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """`feature_names`, as scikit-learn's transformers name what they make.

        Parameters
        ----------
        input_features : sequence of str, optional
            Must be the names of the columns.

        Raises
        ------
        ValueError
            For other names.

        Examples
        --------
        >>> Schema([Categorical("colour", ["red", "green"])]).get_feature_names_out()
        array(['colour=red', 'colour=green'], dtype=object)
        """
        if input_features is not None and tuple(input_features) != self.column_names:
            raise ValueError(f"input_features must be the schema's columns {self.column_names}")
        return np.array(self.feature_names, dtype=object)

    @property
    def n_columns(self) -> int:
        """Number of columns of the design matrix."""
        return self.layout.n_columns

    @property
    def layout(self) -> TabularLayout:
        """Where numbers and categories stand in the design matrix."""
        numeric, first, sizes, end = [], [], [], 0
        for column in self.columns:
            numeric += [end] * column.n_numbers
            end += column.n_numbers
            for size in column.sizes:
                first.append(end)
                sizes.append(size)
                end += size
        return TabularLayout(tuple(numeric), tuple(first), tuple(sizes))

    @property
    def digest(self) -> str:
        """SHA-256 of the description, in hexadecimal: it tells schemas apart in privacy statements."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def row_norm(self, fit_intercept: bool = True) -> float:
        """Bound on the Euclidean norm of a row, its 1 for the intercept included if there is one.

        A numeric column contributes at most 1 to the square (its square, or a 1 in the place of a missing
        value), a categorical one a single 1 at most. A record with every number at its upper bound, and
        listed categories, attains the bound. Rounding cannot exceed it: entries are at most 1 exactly, and
        the sums of their squares stay at or below a whole number, which is a double.

        Examples
        --------
        >>> schema = Schema([Numeric("age", 0, 100), Numeric("height", 0, 250), Categorical("job", ["cook"])])
        >>> schema.row_norm(), round(schema.row_norm(fit_intercept=False), 3)
        (2.0, 1.732)
        """
        return math.sqrt(len(self.columns) + bool(fit_intercept))

    def encode(self, table: Any, numeric_dtype: Any = "float32") -> TabularMatrix:
        """The design matrix of a table: every row depends on its own record and this description alone.

        Parameters
        ----------
        table : data frame, mapping of str to array_like, or two-dimensional array
            A data frame of pandas, polars, pyarrow or another library that narwhals knows; its columns may
            stand in any order. An array must have the schema's columns in the schema's order.
        numeric_dtype : {"float32", "float64", "uint8", "uint16"}
            How numbers are stored. Integers round them to 256 or 65,536 public levels of [0, 1].

        Returns
        -------
        TabularMatrix of shape (n_records, n_columns)

        Raises
        ------
        DataError
            When a column is missing, not described or of the wrong type, or when a value has no place in
            the description and the description no rule for it. The message names column, row and value.

        Examples
        --------
        >>> schema = Schema([Numeric("age", 0, 100), Categorical("smokes", [False, True])])
        >>> X = schema.encode({"age": [25, 50], "smokes": [True, False]})
        >>> X.shape, X.to_dense().tolist()
        ((2, 3), [[0.25, 0.0, 1.0], [0.5, 1.0, 0.0]])
        """
        dtype = np.dtype(numeric_dtype)
        if dtype.name not in _LEVELS:
            raise ValueError(f"numeric_dtype must be one of {', '.join(_LEVELS)}, got {numeric_dtype!r}")
        cells = read_columns(table, self.column_names, self.ignored)
        values = [column.read(each) for column, each in zip(self.columns, cells, strict=True)]
        layout, levels, n = self.layout, _LEVELS[dtype.name], n_rows(table)
        numbers = np.empty((n, len(layout.numeric_columns)), dtype)
        codes = np.empty(
            (n, len(layout.sizes)), np.uint8 if max(layout.sizes, default=0) < 256 else np.uint16
        )
        for start in range(0, n, _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            self._encode_block([each[rows] for each in values], numbers[rows], codes[rows], levels)
        return TabularMatrix(numbers, codes, dataclasses.replace(layout, step=1.0 / (levels or 1)))

    def _encode_block(self, values: Sequence[Any], numbers: Any, codes: Any, levels: int) -> None:
        number, code = 0, 0
        for column, each in zip(self.columns, values, strict=True):
            ends = number + column.n_numbers, code + len(column.sizes)
            column.encode(each, numbers[:, number : ends[0]], codes[:, code : ends[1]], levels)
            number, code = ends

    @classmethod
    def learn(
        cls,
        frame: Any,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        kinds: Mapping[str, str] | None = None,
        label: str | None = None,
        ledger: PrivacyLedger | None = None,
        neighbors: str | None = None,
        random_state: Any = None,
    ) -> Schema:
        """Learn bounds and categories from the data, with a differential privacy guarantee.

        For what is not known publicly. Names of columns, and which of them are numbers, are taken as public;
        no cell decides on that.

        Parameters
        ----------
        frame : data frame, mapping of str to array, RecordFiles, or Dask data frame
            Files as `dperm.data.scan_parquet` and `scan_csv` describe them.
        epsilon, delta : float, optional
            Guarantee of the schema. Without `epsilon` 5 % of the ledger's mu^2 or rho; without `delta` ten
            times an eighth of the slack that the ledger has left.
        kinds : mapping of str to {"numeric", "categorical", "ignored"}, optional
            What columns are, where their types should not decide: numbers are numeric; texts, truth values
            and objects categorical. Of numbers that are categorical the whole ones count, of objects texts.
            In CSV files what is categorical is read as text.
        label : str, optional
            Column to predict, categorical unless `kinds` says otherwise: not in the schema. Its values are
            `classes`. By default that of the files.
        ledger : PrivacyLedger, optional
            Charged once, before anything is drawn.
        neighbors : {"add_or_remove", "replace_one"}, optional
            By default the ledger's relation, and add_or_remove without a ledger.
        random_state : None, int or Generator
            None: cryptographic noise. A seed protects nobody who knows it.

        Returns
        -------
        Schema
            Numbers beyond the bounds (about 0.5 % of the records, more where few show) are clipped. Values
            that few records have do not show, and are ``unknown``, as missing ones are: zeros. Labels that do
            not show are no `classes`; a fit refuses records with them. ``privacy`` is its statement,
            ``report`` says what is cut off.

        Raises
        ------
        BudgetExceededError
            If the ledger cannot afford it. Nothing is charged.
        ValueError, TypeError, DataError
            For arguments and columns that cannot be used. Nothing is charged; but for a `DataError` where
            nothing stands out from the noise, or a file has changed meanwhile: then the charge stays.

        Notes
        -----
        One release of the counts of all columns together: of numbers by sign and power of two, of categories
        by value, shown from a count on that a value of one record reaches with a probability of a tenth of
        delta at most (`dperm.accounting.stability`). A second one counts numbers on a grid between the powers
        of two. How long it takes tells how many different values there are.

        The norm of the rows is not learned: fits learn it themselves, better, of rows as they see them.

        Examples
        --------
        >>> import numpy as np
        >>> table = {"age": np.arange(20_000.0) % 100, "job": np.array(["cook", "clerk"] * 10_000)}
        >>> schema = Schema.learn(table, epsilon=1.0, delta=1e-6)
        >>> schema.columns[1].categories
        ('clerk', 'cook')
        """
        learn: Callable[..., Schema] = _learning().learn_schema
        return learn(
            frame,
            epsilon,
            delta,
            kinds=kinds,
            label=label,
            ledger=ledger,
            neighbors=neighbors,
            random_state=random_state,
        )

    @property
    def privacy(self) -> Any:
        """The `PrivacyStatement` of a schema that was learned; None for others."""
        return self._learned and _learning().PrivacyStatement.from_dict(self._learned["privacy"])

    @property
    def report(self) -> Any:
        """What a schema that was learned cuts off, as a `LearnedReport` that prints; None for others."""
        return self._learned and _learning().LearnedReport(self._learned["report"])

    @property
    def classes(self) -> tuple[str | int | bool, ...] | None:
        """Values of a label that was learned, sorted; None where there is none."""
        found = (self._learned or {}).get("classes")
        return None if found is None else tuple(found)

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        """Bounds of a numeric label that was learned; None where there is none."""
        found = (self._learned or {}).get("target_bounds")
        return None if found is None else (found[0], found[1])

    @classmethod
    def _learned_as(
        cls,
        columns: Sequence[SchemaColumn],
        name: str,
        ignored: Sequence[str],
        facts: Mapping[str, Any] | None,
    ) -> Schema:
        schema = cls(tuple(columns), name, tuple(ignored))
        object.__setattr__(schema, "_learned", facts)
        return schema

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Schema:
        """Read a description from a TOML file that `to_toml` or a person wrote.

        Besides ``name`` and ``ignored`` it has an array of tables ``columns``, whose keys are the parameters
        of `Numeric` and `Categorical`. ``type`` ("numeric" or "categorical") may be left out where ``low``,
        ``high`` or ``categories`` tell; ``repeat = n`` stands for n columns name0, name1, ... that are alike.
        A column may take one line::

            columns = [
                { name = "age", low = 17, high = 90 },
                { name = "colour", categories = ["red", "green"], unknown = "zero" },
                { name = "pixel", low = 0, high = 255, repeat = 784 },
            ]

        Raises
        ------
        ValueError
            When the file is not TOML, an entry is missing or unknown, or a value makes no sense.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp(), "people.toml")
        >>> written = path.write_text('columns = [{ name = "age", low = 17, high = 90 }]')
        >>> Schema.from_toml(path).columns[0].high
        90
        """
        return cls.from_text(Path(path).read_text(encoding="utf-8"))

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """The description that `to_text` wrote, or one in the same format.

        Examples
        --------
        >>> schema = Schema.from_text('columns = [{ name = "pixel", low = 0, high = 255, repeat = 3 }]')
        >>> schema.feature_names
        ('pixel0', 'pixel1', 'pixel2')
        """
        schema = cls.from_entries(table_of(text))
        object.__setattr__(schema, "_is_draft", text.startswith(DRAFT))
        return schema

    @classmethod
    def from_entries(cls, entries: dict[str, Any]) -> Schema:
        """The description of a TOML document, as tomllib reads it.

        Examples
        --------
        >>> import tomllib
        >>> text = 'columns = [{ name = "age", low = 0, high = 100 }]'
        >>> Schema.from_entries(tomllib.loads(text)).columns
        (Numeric(name='age', low=0, high=100, transform='none', bins=None, missing='error'),)
        """
        entries = dict(entries)
        name, ignored = entries.pop("name", ""), entries.pop("ignored", ())
        learned = entries.pop("learned", None)
        texts = isinstance(ignored, list | tuple) and all(isinstance(each, str) for each in ignored)
        if not isinstance(name, str) or not texts:
            raise ValueError("a schema's name must be a text, ignored a list of texts")
        columns = columns_from_entries(name, entries.pop("columns", None))
        if entries:
            raise ValueError(f"schema {name!r} has unknown entries: {', '.join(sorted(entries))}")
        if learned is not None and not isinstance(learned, dict):
            raise ValueError(f"schema {name!r}: learned must be a table, as to_toml writes it")
        return cls._learned_as(columns, name, tuple(ignored), learned)

    def to_entries(self) -> dict[str, Any]:
        """The description as `from_entries` reads it: JSON types, but null.

        Examples
        --------
        >>> Schema([Numeric("age", 0, 100)]).to_entries()["columns"]
        [{'name': 'age', 'type': 'numeric', 'low': 0, 'high': 100}]
        """
        learned = {} if self._learned is None else {"learned": dict(self._learned)}
        return {**table_of(self._text()), **learned}

    def to_toml(self, path: str | PathLike[str]) -> None:
        """Write the description to a TOML file; `from_toml` reads it back, and people may edit it.

        Examples
        --------
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/people.toml"
        >>> Schema([Numeric("age", 17, 90)]).to_toml(path)
        >>> Schema.from_toml(path).feature_names
        ('age',)
        """
        Path(path).write_text(self.to_text(), encoding="utf-8")

    def to_text(self) -> str:
        """The description as TOML.

        A `template` begins with a comment that says that it is a draft; what was learned ends with tables
        that say how.

        Examples
        --------
        >>> schema = Schema([Numeric("age", 17, 90)], name="people")
        >>> Schema.from_text(schema.to_text()) == schema
        True
        """
        learned = "" if self._learned is None else "\n" + toml_table("learned", self._learned)
        return (DRAFT if self._is_draft else "") + self._text() + learned

    def _repr_html_(self) -> str:
        """Return a table of the columns for notebooks."""
        name = f"Schema {self.name!r}: " if self.name else "Schema: "
        title = Text(f"{name}{len(self.columns)} columns, {self.n_columns} features")
        return Document("", [title, *schema_blocks(self.columns, self.ignored)]).to_fragment()

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        shown = ", ".join(self.column_names[:_SHOWN_COLUMNS])
        more = ", ..." if len(self.columns) > _SHOWN_COLUMNS else ""
        return f"Schema({name}{len(self.columns)} columns, {self.n_columns} features: {shown}{more})"

    def _text(self) -> str:
        return toml_text(self.name, self.ignored, self.columns)

    @classmethod
    def template(cls, table: Any, name: str = "") -> Schema:
        """A draft of a schema, read from data: NOT private until it was checked.

        Bounds are rounded outwards, categories are those that occur. Replace both by what is publicly known
        of the columns before the schema is used.

        Parameters
        ----------
        table : data frame, mapping of str to array_like, or iterator of such parts of a table
        name : str

        Returns
        -------
        Schema

        Warns
        -----
        PrivacyWarning
            Always.

        Raises
        ------
        DataError
            For a table without a column that a description suits.

        Examples
        --------
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):  # it says what is said above
        ...     draft = Schema.template({"age": [23, 58, 41], "colour": ["red", "green", "red"]})
        >>> draft.columns[0].low, draft.columns[0].high, draft.columns[1].categories
        (20, 60, ('green', 'red'))
        """
        columns, ignored = draft_columns(table if isinstance(table, Iterator) else [table])
        draft = cls(tuple(columns), name, tuple(ignored))
        object.__setattr__(draft, "_is_draft", True)
        return draft


def _learning() -> Any:
    return importlib.import_module(LEARNING)


def _check_unique(problem: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{problem}: {', '.join(map(repr, repeated))}")
