"""The package's source files, imports and functions, for tests of its structure."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dperm"
CSRC = ROOT / "csrc"


@dataclass(frozen=True)
class Function:
    """A definition: number of lines of its body, without signature and docstring, and of arguments."""

    path: Path
    name: str  # within its file
    line: int
    n_lines: int
    n_arguments: int

    def __str__(self):
        return f"{self.path.relative_to(ROOT).as_posix()}:{self.line}: {self.name}"

    @property
    def public_name(self):
        """``dperm.accounting.noise_multiplier``, whichever module of that folder defines it."""
        folder = self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        return f"dperm.{folder}.{self.name}"


def python_files():
    return sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")])


def cython_files():
    return sorted([*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd"), *PACKAGE.rglob("*.pxi")])


def c_files():
    return sorted(CSRC.rglob("*.[ch]"))


def all_functions():
    """All functions of the package and its C code."""
    for path in python_files():
        if path.suffix == ".py":
            yield from python_functions(path)
    for path in cython_files():
        if path.suffix in (".pyx", ".pxi"):
            yield from cython_functions(path)
    for path in c_files():
        yield from c_functions(path)


def module_name(path):
    """``dperm.data.dense`` for ``src/dperm/data/dense.py``; a package for its ``__init__``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(source):
    """Dotted names that a module imports anywhere, imports for type checkers included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports from the top: from dperm.x import y"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph():
    """Modules of the package, and for each the modules of the package that it imports.

    The package's own ``__init__`` is left out, because it imports lazily.
    """
    paths = {module_name(path): path for path in python_files() if path.suffix == ".py"}
    del paths["dperm"]
    graph = {}
    for name, path in paths.items():
        found = set()
        for imported in imported_names(path.read_text()):
            # Of `from package import name`, `name` is a module or what the package's __init__ defines.
            module = imported if imported in paths else imported.rpartition(".")[0]
            found |= {module} & paths.keys()
        graph[name] = found - {name}
    return graph


def include_graph():
    """C files, and for each those that it includes."""
    graph = {}
    for path in c_files():
        included = re.findall(r'^\s*#\s*include "(.+)"', path.read_text(), flags=re.MULTILINE)
        found = {CSRC / name if (CSRC / name).exists() else path.parent / name for name in included}
        graph[path.relative_to(CSRC).as_posix()] = {
            file.relative_to(CSRC).as_posix() for file in found if file.exists()
        }
    return graph


def circles(graph):
    """Strongly connected components that are cycles, by Tarjan's algorithm."""
    index, low, stack, groups = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for successor in graph[node]:
            if successor not in index:
                visit(successor)
            if successor in stack:
                low[node] = min(low[node], low[successor])
        if low[node] == index[node]:
            place = stack.index(node)
            groups.append(sorted(stack[place:]))
            del stack[place:]

    for node in graph:
        if node not in index:
            visit(node)
    return [group for group in groups if len(group) > 1 or group[0] in graph[group[0]]]


def python_functions(path):
    """Functions and methods, nested ones included; `self` and `cls` do not count as arguments."""

    def walk(node, names, in_class):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield _python_function(path, child, [*names, child.name], in_class)
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield from walk(child, [*names, child.name] if named else names, isinstance(child, ast.ClassDef))

    yield from walk(ast.parse(path.read_text()), [], False)


def _python_function(path, node, names, in_class):
    arguments = node.args
    found = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    static = any(ast.unparse(each) == "staticmethod" for each in node.decorator_list)
    count = sum(each is not None for each in found) - (in_class and not static)
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    n_lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
    return Function(path, ".".join(names), node.lineno, n_lines, count)


def cython_functions(path):
    """Functions of a Cython module: from the line after the signature to the last one indented deeper."""
    lines = path.read_text().splitlines()
    head = re.compile(r"^( *)(?:def|cdef|cpdef) (?!class |extern |enum |struct )")
    for number, line in enumerate(lines):
        match = head.match(line)
        if not match or "(" not in line:
            continue
        signature, end = line, number
        while signature.count("(") > signature.count(")") or not signature.rstrip().endswith(":"):
            end += 1
            if end == len(lines) or signature.count("(") <= signature.count(")"):
                break
            signature += lines[end]
        if not signature.rstrip().endswith(":"):
            continue  # a declaration of variables
        last = end
        for later in range(end + 1, len(lines)):
            if lines[later].strip():
                if len(lines[later]) - len(lines[later].lstrip()) <= len(match.group(1)):
                    break
                last = later
        body = "\n".join(lines[end + 1 : last + 1])
        docstring = re.match(r'\s*r?"""(?:.|\n)*?"""', body)
        arguments = _split_arguments(signature[signature.index("(") :])
        name = signature[: signature.index("(")].split()[-1].lstrip("*")
        n_lines = len(body.splitlines()) - (len(docstring.group().splitlines()) if docstring else 0)
        count = len(arguments) - (bool(arguments) and arguments[0] == "self")
        yield Function(path, name, number + 1, n_lines, count)


def c_functions(path):
    """Functions of a C file or fragment, by their braces; both branches of an ``#if`` must balance."""
    text = _without_comments(path.read_text())
    depth, head_start = 0, 0
    for match in re.finditer(r"[{};]", text):
        if match.group() == "{":
            if depth == 0:
                head, opened = text[head_start : match.start()], match.start()
            depth += 1
            continue
        depth -= match.group() == "}"
        assert depth >= 0, f"{path}: a brace too many"
        if depth == 0:
            if match.group() == "}" and head.rstrip().endswith(")") and "=" not in head:
                yield _c_function(path, text, head, head_start, opened, match.start())
            head_start = match.end()
    assert depth == 0, f"{path}: a brace is missing"


def _c_function(path, text, head, head_start, opened, closed):
    level = 0
    for start in range(len(head.rstrip()) - 1, -1, -1):  # the last pair of parentheses holds the arguments
        level += (head[start] == ")") - (head[start] == "(")
        if level == 0:
            break
    name = head[:start].split()[-1].lstrip("*")
    arguments = [each for each in _split_arguments(head[start:]) if each != "void"]
    line = text.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
    n_lines = text.count("\n", opened, closed) - 1
    return Function(path, name, line, max(n_lines, 1), len(arguments))


def _split_arguments(text):
    """The parts between the commas of the parenthesis that begins the text."""
    arguments, level, current = [], 0, ""
    for letter in text:
        level += (letter in "([{") - (letter in ")]}")
        if level == 0 or (level == 1 and letter == ","):
            arguments.append(current)
            current = ""
            if level == 0:
                break
        elif not (level == 1 and letter == "(" and not current and not arguments):
            current += letter
    return [each.strip() for each in arguments if each.strip() not in ("", "*", "/")]


def _without_comments(text):
    """C with comments, strings and preprocessor lines blanked out, line for line."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    text = re.sub(r"/\*.*?\*/|//[^\n]*", blank, text, flags=re.DOTALL)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)
