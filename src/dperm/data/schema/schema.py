"""The public description of a table, which encodes records as a design matrix."""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm._document import Document, Text
from dperm._files import read_limited
from dperm.data.checks import check_unique
from dperm.data.files.whole_files import write_whole
from dperm.data.schema import formats
from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn, check_label
from dperm.data.schema.draft import draft_columns
from dperm.data.schema.encoding import encode_table, layout_of
from dperm.data.schema.interactions import Crossed, Interaction, crossed_columns
from dperm.data.tabular import TabularLayout, TabularMatrix

if TYPE_CHECKING:  # a schema can be read without importing the accounting
    from dperm.accounting.ledger.privacy_ledger import PrivacyLedger

_SHOWN_COLUMNS = 6  # in a repr

#: Learns schemas, from a higher layer: the only import upwards, listed in `tests/packaging/test_layers.py`.
LEARNING = "dperm.schema_learning"


@dataclass(frozen=True, repr=False)
class Schema:
    """What is publicly known about the columns of a table, fixed before its records are read.

    It encodes each record on its own as a row of a design matrix: nothing is learned from the data, and the
    norm of a row is bounded in advance.

    Parameters
    ----------
    columns : sequence of Numeric and Categorical
        In the order of the columns of the design matrix; a table may have them in any order.
    name : str
        Used in privacy statements.
    ignored : sequence of str
        Columns that a table may have but that are not used. Any other column that is not described is an
        error, so that a forgotten column does not go unnoticed.
    label : str, Numeric or Categorical
        Column to predict, which is no feature: its name, which `columns` may describe, or its description.
        A table may have it. Estimators take its categories as `classes`, its bounds as `target_bound`.
    draft : bool
        Whether this was read from data (`template`) and not checked since: a fit with it says that nothing
        is guaranteed.
    interactions : sequence of Interaction
        What pairs of columns say together, which may also stand among `columns`.

    Raises
    ------
    ValueError
        If the description is invalid.

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
    label: str | SchemaColumn = ""
    draft: bool = field(default=False, compare=False)
    interactions: Sequence[Interaction] = ()
    _learned: Mapping[str, Any] | None = field(default=None, init=False, repr=False, compare=False)
    _remarks: Mapping[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _crossed: tuple[Crossed, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: tuple[Any, ...] = (*self.columns, *self.interactions)
        crossed = tuple(each for each in given if isinstance(each, Interaction))
        columns = tuple(each for each in given if not isinstance(each, Interaction))
        if other := [each for each in columns if not isinstance(each, Numeric | Categorical)]:
            raise ValueError(f"columns must be Numeric, Categorical or Interaction, got {other[0]!r}")
        label = next((each for each in columns if each.name == self.label), self.label)
        check_label(label)
        object.__setattr__(self, "columns", tuple(each for each in columns if each is not label))
        object.__setattr__(self, "ignored", tuple(self.ignored))
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "interactions", crossed)
        object.__setattr__(self, "_crossed", crossed_columns(crossed, self.columns))
        if not self.columns:
            raise ValueError(f"schema {self.name!r} has no columns")
        named = [*self.column_names, *self.ignored, *([self.label_name] if label else [])]
        check_unique(f"schema {self.name!r} names a column twice", named)
        check_unique(f"schema {self.name!r} names two features alike", self.feature_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of a table."""
        return tuple(column.name for column in self.columns)

    @property
    def label_name(self) -> str:
        """Name of the column to predict; empty if it is not known."""
        return self.label if isinstance(self.label, str) else self.label.name

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix: ``"age"``, or ``"sex=Male"`` for a category."""
        return tuple(name for part in self.parts for name in part.feature_names)

    @property
    def parts(self) -> tuple[SchemaColumn | Crossed, ...]:
        """What fills the design matrix: the columns, then the interactions."""
        return (*self.columns, *self._crossed)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """`feature_names`, in the interface of scikit-learn's transformers.

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
        return len(self.feature_names)

    @property
    def layout(self) -> TabularLayout:
        """The positions of numbers and codes in the design matrix."""
        return layout_of(self.parts, self.encoding)

    @property
    def encoding(self) -> str:
        """Identifies what the columns of the design matrix mean, in hexadecimal.

        It does not depend on names of schemas, ignored columns, or rules for unknown and missing values.
        """
        return hashlib.sha256(repr([part.meaning for part in self.parts]).encode()).hexdigest()

    @property
    def digest(self) -> str:
        """SHA-256 of the description, in hexadecimal; identifies the schema in privacy statements."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def row_norm(self, fit_intercept: bool = True) -> float:
        """Bound on the Euclidean norm of a row, including the 1 of the intercept if there is one.

        A column contributes at most 1 to the squared norm: the square of a number, or a single 1 for a bin, a
        category or a missing value; at most 2 with functions or atoms; an interaction at most 1. These
        squares stay at or below 1 exactly, so rounded sums of them at or below an integer, a double.

        Examples
        --------
        >>> schema = Schema([Numeric("age", 0, 100), Numeric("height", 0, 250), Categorical("job", ["cook"])])
        >>> schema.row_norm(), round(schema.row_norm(fit_intercept=False), 3)
        (2.0, 1.732)
        """
        return math.sqrt(sum(part.squared_norm for part in self.parts) + bool(fit_intercept))

    def encode(self, table: Any, numeric_dtype: Any = "float32") -> TabularMatrix:
        """The design matrix of a table; each row depends only on its record and this description.

        Parameters
        ----------
        table : data frame, mapping of str to array_like, or two-dimensional array
            A data frame of pandas, polars, pyarrow or another library that narwhals supports, with columns in
            any order. An array must have the schema's columns in the schema's order.
        numeric_dtype : {"float32", "float64", "uint8", "uint16"}
            How numbers are stored. Integers round them to 256 or 65,536 public levels of [0, 1].

        Returns
        -------
        TabularMatrix of shape (n_records, n_columns)

        Raises
        ------
        DataError
            If a column is missing, not described or of the wrong type, or if a value does not fit the
            description, which has no rule for it. The message names column, row and value.

        Examples
        --------
        >>> schema = Schema([Numeric("age", 0, 100), Categorical("smokes", [False, True])])
        >>> X = schema.encode({"age": [25, 50], "smokes": [True, False]})
        >>> X.shape, X.to_dense().tolist()
        ((2, 3), [[0.25, 0.0, 1.0], [0.5, 1.0, 0.0]])
        """
        unused = (*self.ignored, self.label_name) if self.label else self.ignored
        return encode_table(self.parts, self.layout, table, unused, numeric_dtype)

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
        functions: int | str = 0,
        random_state: Any = None,
    ) -> Schema:
        """Learn bounds and categories from the data, with a differential privacy guarantee.

        For tables about which this is not publicly known. The names of the columns, and which of them are
        numeric, are taken as public and must not depend on single cells.

        Parameters
        ----------
        frame : data frame, mapping of str to array, RecordFiles, or Dask data frame
            Files as `dperm.data.scan_parquet` and `scan_csv` describe them.
        epsilon, delta : float, optional
            Guarantee of the schema. Without `epsilon` 5 % of the ledger's mu^2 or rho; without `delta` ten
            times an eighth of the slack that the ledger has left.
        kinds : mapping of str to {"numeric", "categorical", "ignored"}, optional
            Overrides the kinds implied by the types of the columns: numbers are numeric; texts, truth values
            and objects are categorical. Categorical columns count integers only if they hold numbers, and
            texts only if they hold objects. In CSV files they are read as text.
        label : str, optional
            Column to predict, which is left out of the schema; categorical unless `kinds` says otherwise. Its
            values become `classes`. Files have a default.
        ledger : PrivacyLedger, optional
            Charged once, before anything is drawn.
        neighbors : {"add_or_remove", "replace_one"}, optional
            By default the ledger's relation, or add_or_remove without a ledger.
        functions : int or "auto"
            Smooth functions of each number, whose bins take a quarter of the budget. "auto": as many as a fit
            with what the ledger has left can learn.
        random_state : None, int or Generator
            None: cryptographic noise. A seed gives no protection from those who know it.

        Returns
        -------
        Schema
            Numbers beyond the bounds (about 0.5 % of the records, more for columns with few visible values)
            are clipped. Rare values stay hidden and become ``unknown``, as missing ones do: zeros. Rare
            labels are left out of `classes`; a fit refuses records with them. ``privacy`` is its statement,
            ``report`` says what is cut off.

        Raises
        ------
        BudgetExceededError
            If the ledger cannot afford it. Nothing is charged.
        ValueError, TypeError, DataError
            For invalid arguments or columns. Nothing is charged, except before a `DataError` because nothing
            exceeds the noise or a file has changed meanwhile: then the charge stays.

        Notes
        -----
        The counts of all columns are released together: numbers by sign and power of two, categories by
        value. A category is shown if its noisy count exceeds a threshold that a value of a single record
        exceeds with probability at most a tenth of delta (`dperm.accounting.selection`). A second release
        counts numbers on a grid between the powers of two. The running time reveals the number of values.

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
            frame, (epsilon, delta), kinds=kinds, label=label, ledger=ledger, neighbors=neighbors,
            functions=functions, random_state=random_state,
        )  # fmt: skip

    @property
    def privacy(self) -> Any:
        """The `PrivacyStatement` of a learned schema; None for others."""
        return self._learned and _learning().PrivacyStatement.from_dict(self._learned["privacy"])

    @property
    def report(self) -> Any:
        """What a learned schema cuts off, as a printable `LearnedReport`; None for others."""
        return self._learned and _learning().LearnedReport(self._learned["report"])

    @property
    def classes(self) -> tuple[str | int | bool, ...] | None:
        """The categories of the label, or the values that were learned; None if they are not known."""
        if isinstance(self.label, Categorical):
            return tuple(self.label.categories)
        found = (self._learned or {}).get("classes")
        return None if found is None else tuple(found)

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        """The bounds of a numeric label, described or learned; None if they are not known."""
        if isinstance(self.label, Numeric):
            return self.label.low, self.label.high
        found = (self._learned or {}).get("target_bounds")
        return None if found is None else (found[0], found[1])

    @classmethod
    def _learned_as(cls, facts: Mapping[str, Any] | None, *described: Any, **options: Any) -> Schema:
        object.__setattr__(schema := cls(*described, **options), "_learned", facts)
        return schema

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Schema:
        """Read a description from a TOML file, written by `to_toml` or by hand.

        Besides ``name``, ``ignored`` and ``label`` it has an array of tables ``columns``, whose keys are the
        parameters of `Numeric` and `Categorical`, and perhaps one of ``interactions``. ``type`` ("numeric" or
        "categorical") may be omitted if ``low``, ``high`` or ``categories`` is given; ``repeat = n`` means
        columns name0, name1, ...
        A column may be written on one line::

            columns = [
                { name = "age", low = 17, high = 90 },
                { name = "colour", categories = ["red", "green"], unknown = "zero" },
                { name = "pixel", low = 0, high = 255, repeat = 784 },
            ]

        Raises
        ------
        ValueError
            If the file is not TOML, an entry is missing or unknown, or a value is invalid.

        Examples
        --------
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/people.toml"
        >>> _ = open(path, "w").write('columns = [{ name = "age", low = 17, high = 90 }]')
        >>> Schema.from_toml(path).columns[0].high
        90
        """
        return cls.from_text(read_limited(path).decode())

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """The description that `to_text` wrote, or one in the same format.

        Examples
        --------
        >>> schema = Schema.from_text('columns = [{ name = "pixel", low = 0, high = 255, repeat = 3 }]')
        >>> schema.feature_names
        ('pixel0', 'pixel1', 'pixel2')
        """
        drafted = any(line.startswith(formats.DRAFT_MARK) for line in text.splitlines())
        return cls.from_entries(formats.table_of(text) | ({"draft": True} if drafted else {}))

    @classmethod
    def from_entries(cls, entries: dict[str, Any]) -> Schema:
        """The description of a TOML document, as tomllib reads it.

        Examples
        --------
        >>> Schema.from_entries({"columns": [{"name": "age", "low": 0, "high": 100}]}).feature_names
        ('age',)
        """
        entries = dict(entries)
        name, ignored = entries.pop("name", ""), entries.pop("ignored", ())
        label, draft = entries.pop("label", ""), entries.pop("draft", False)
        learned, crossed = entries.pop("learned", None), entries.pop("interactions", [])
        texts = isinstance(ignored, list | tuple) and all(isinstance(each, str) for each in ignored)
        if not isinstance(name, str) or not texts:
            raise ValueError("a schema's name must be a string, ignored a list of strings")
        if not isinstance(label, str) or not isinstance(draft, bool):
            raise ValueError(f"schema {name!r}: label must be a string, draft true or false")
        columns = formats.columns_from_entries(name, entries.pop("columns", None))
        interactions = formats.interactions_from_entries(name, crossed)
        if entries:
            raise ValueError(f"schema {name!r} has unknown entries: {', '.join(sorted(entries))}")
        if learned is not None and not isinstance(learned, dict):
            raise ValueError(f"schema {name!r}: learned must be a table, as to_toml writes it")
        return cls._learned_as(learned, columns, name, ignored, label, draft=draft, interactions=interactions)

    def to_entries(self) -> dict[str, Any]:
        """The description as `from_entries` reads it, in JSON types other than null.

        Examples
        --------
        >>> Schema([Numeric("age", 0, 100)]).to_entries()["columns"]
        [{'name': 'age', 'type': 'numeric', 'low': 0, 'high': 100}]
        """
        learned = {} if self._learned is None else {"learned": dict(self._learned)}
        return {**({"draft": True} if self.draft else {}), **formats.table_of(self._text()), **learned}

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
        write_whole(path, self.to_text())

    def to_text(self) -> str:
        """The description as TOML.

        A draft begins with a comment that says so; a learned schema ends with how it was learned.

        Examples
        --------
        >>> schema = Schema([Numeric("age", 17, 90)], name="people")
        >>> Schema.from_text(schema.to_text()) == schema
        True
        """
        learned = "" if self._learned is None else "\n" + formats.toml_table("learned", self._learned)
        return (formats.DRAFT + self._text(self._remarks) if self.draft else self._text()) + learned

    def _repr_html_(self) -> str:
        """Return an HTML table of the columns."""
        words = "Draft of a schema" if self.draft else "Schema"
        words += f" {self.name!r}: {len(self.columns)} columns, {self.n_columns} features"
        title = Text(words.replace(" '':", ":"), "warning" if self.draft else "")
        blocks = formats.schema_blocks(self.columns, self.ignored, self.interactions)
        return Document("", [title, *blocks]).to_fragment()

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        more = ["..."] if len(self.columns) > _SHOWN_COLUMNS else []
        shown = [*self.column_names[:_SHOWN_COLUMNS], *more, *(each.name for each in self.interactions)]
        return f"Schema({name}{len(self.columns)} columns, {self.n_columns} features: {', '.join(shown)})"

    def _text(self, remarks: Mapping[str, str] = MappingProxyType({})) -> str:
        head = {"name": self.name, "label": self.label_name, "ignored": self.ignored}
        last = () if isinstance(self.label, str) else (self.label,)
        return formats.toml_text(head, (*self.columns, *last), remarks, self.interactions)

    @classmethod
    def template(cls, table: Any, name: str = "", *, label: str = "") -> Schema:
        """A draft of a schema, read from data: NOT private until it has been checked.

        Bounds are rounded outwards, categories are those that occur: replace both by what is publicly known.
        The text marks constants, row numbers and identifiers, which are of no use as features.

        Parameters
        ----------
        table : data frame, mapping of str to array_like, or iterator of such parts of a table
        name : str
        label : str
            Column to predict, which is no feature. Up to 20 whole numbers are drafted as categories.

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
            If no column of the table can be described.

        Examples
        --------
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     draft = Schema.template({"age": [23, 58, 41], "colour": ["red", "green", "red"]})
        >>> draft.columns[0].low, draft.columns[0].high, draft.columns[1].categories
        (20, 60, ('green', 'red'))
        """
        found = draft_columns(table if isinstance(table, Iterator) else [table], label)
        draft = cls(found.columns, name, found.left_out, label, draft=True)
        object.__setattr__(draft, "_remarks", found.remarks)
        return draft


def _learning() -> Any:
    return importlib.import_module(LEARNING)
