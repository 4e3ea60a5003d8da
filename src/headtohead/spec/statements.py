"""Statements at the top of Python source: which names each of them gives a value, which it uses, and which statements a
class needs. `digest` names the code of a class; `standalone` and `slice_session` write that code as a file that runs
on its own."""

from __future__ import annotations

import ast
import builtins
import copy
import hashlib
import importlib.util
import symtable
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

SHOW_EMPTY: dict[str, Any] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
SEEDING = {"seed", "manual_seed"}  # they change what a module draws next
COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}  # the names of their scopes
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Statement:
    """One statement at the top of a file or of a cell."""

    node: ast.stmt
    text: str  # as it was written, comments inside it included

    @cached_property
    def dump(self) -> str:
        """The statement's tree as text, the same in every version of Python: 3.13 leaves out empty lists, 3.12 adds
        lists of type parameters, and empty texts to formats such as f"{x:{digits}}"."""
        for n in ast.walk(self.node):
            if isinstance(n, ast.JoinedStr):
                n.values = [v for v in n.values if not (isinstance(v, ast.Constant) and v.value == "")]
        return ast.dump(self.node, **SHOW_EMPTY).replace(", type_params=[]", "")

    @cached_property
    def binds(self) -> set[str]:
        """Names that the statement gives a value: definitions, imports, targets inside it (`a, b`, `d["k"]`, if)."""
        if isinstance(self.node, Definition):
            return {self.node.name}  # what is bound inside stays inside
        names = set()
        for n in ast.walk(self.node):
            if isinstance(n, Definition):
                names.add(n.name)
            elif isinstance(n, ast.alias):
                names.add((n.asname or n.name).partition(".")[0])
            elif isinstance(n, ast.Name | ast.Subscript | ast.Attribute) and isinstance(n.ctx, ast.Store):
                root = _root(n)
                if root is not None:
                    names.add(root)
        return names

    @cached_property
    def replaces(self) -> set[str]:
        """Names whose earlier value is gone after the statement."""
        node = self.node
        if isinstance(node, Definition):
            return {node.name}
        if isinstance(node, ast.Import | ast.ImportFrom):
            return self.binds
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        flat = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
        return {t.id for t in flat if isinstance(t, ast.Name)}

    @cached_property
    def _scopes(self) -> symtable.SymbolTable:
        return symtable.symtable(ast.unparse(_SameScopes().visit(copy.deepcopy(self.node))), "", "exec")

    @cached_property
    def _reads(self) -> tuple[set[str], set[str]]:
        return _uses(self._scopes, inside=False)

    @cached_property
    def uses(self) -> set[str]:
        """Names of the file's top that the statement refers to, those that it binds included."""
        return {s.get_name() for s in self._scopes.get_symbols()}.union(*self._reads)

    @cached_property
    def now(self) -> set[str]:
        """Names whose value is read when the statement is executed."""
        return self._reads[0] | (self.binds - self.replaces)

    @property
    def late(self) -> set[str]:
        """Names whose value is read when a function of the statement is called."""
        return self._reads[1]

    @cached_property
    def _calls(self) -> list[ast.Call]:
        """Calls whose result is thrown away: they are made for what they change."""
        found: list[ast.Call] = []
        todo: list[ast.AST] = [self.node]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                found.append(node.value)
            if not isinstance(node, Definition | ast.expr):
                todo += ast.iter_child_nodes(node)
        return found

    @cached_property
    def changes(self) -> set[str]:
        """Variables that the statement may change in place: `table.update(…)`, `nn.init.normal_(weights)`."""
        names = {_root(call.func) for call in self._calls if isinstance(call.func, ast.Attribute)}
        for call in self._calls:
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if called.endswith("_") or called == "shuffle":
                names |= {_root(argument) for argument in call.args}
        return {name for name in names if name is not None}

    @cached_property
    def seeds(self) -> set[str]:
        """The module whose random numbers the statement seeds: `torch.manual_seed(0)`. A loop that seeds does more."""
        call = self.node.value if isinstance(self.node, ast.Expr) else None
        called = call.func if isinstance(call, ast.Call) else None
        root = _root(called) if isinstance(called, ast.Attribute) and called.attr in SEEDING else None
        return {root} if root else set()

    @property
    def is_future(self) -> bool:
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"

    @property
    def star(self) -> str | None:
        """The module of `from module import *`."""
        node = self.node
        return node.module if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" else None


class _SameScopes(ast.NodeTransformer):
    """Writes code so that it has the same scopes in every version of Python and uses the same names. Since 3.12 the
    variables of a list comprehension belong to the scope around it, and since 3.14 annotations have a scope that
    `symtable` does not show."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """Annotations become decorators, which are read in the same scope."""
        self.generic_visit(node)
        given = node.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        annotations = [a.annotation for a in arguments if a is not None] + [node.returns]
        node.decorator_list += [annotation for annotation in annotations if annotation is not None]
        node.returns = None
        for argument in filter(None, arguments):
            argument.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        read, node.annotation = ast.Expr(node.annotation), ast.Constant(None)
        return [node, read]

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp  # noqa: N815

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def _root(node: ast.AST) -> str | None:
    """`table` of `table.rows["a"].update`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _uses(scope: symtable.SymbolTable, inside: bool) -> tuple[set[str], set[str]]:
    """Names of the top that are read when the scope is executed, and those read when its functions are called. A
    function's own variable is none of them, whatever its name."""
    kind = scope.get_type()
    comprehension = scope.get_name() in COMPREHENSIONS
    inside = inside or (kind == "function" and not comprehension)
    symbols = scope.get_symbols()
    names = {s.get_name() for s in symbols if (s.is_referenced() if kind == "module" else s.is_global())}
    now, late = (set(), names) if inside else (names, names if comprehension else set())
    for child in scope.get_children():
        more_now, more_late = _uses(child, inside)
        now, late = now | more_now, late | more_late
    return now, late


@lru_cache(maxsize=4096)
def statements_of(source: bytes | str) -> tuple[Statement, ...]:
    """The statements at the top of a source; raises SyntaxError."""
    text = importlib.util.decode_source(source) if isinstance(source, bytes) else source.replace("\r\n", "\n")
    lines = text.split("\n")
    found = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if first < node.lineno:
            written = "\n".join(lines[first - 1 : node.end_lineno])
        else:
            written = ast.get_source_segment(text, node) or ast.unparse(node)
        found.append(Statement(node, written))
    return tuple(found)


# -- what a class needs ------------------------------------------------------------------------------------------------


def digest(source: bytes | str, name: str, qualname: str = "") -> str:
    """Names the code of a class: the class and everything at the top of its file that it uses, comments and layout
    aside."""
    statements = statements_of(source)
    needed = _needed(name, [(s.binds, s) for s in statements])
    code = [s.dump for n in sorted(needed) for s in statements if n in s.binds]
    whole = source if isinstance(source, bytes) else source.encode()
    return hashlib.sha256(("\n".join(code) or f"{qualname or name}\n{whole!r}").encode()).hexdigest()[:16]


def binds(source: bytes | str, name: str) -> bool:
    return any(name in s.binds for s in statements_of(source))


def _needed(name: str, given: Iterable[tuple[Collection[str], Statement]]) -> set[str]:
    """The name and every name that the statements which give it a value use, and so on."""
    uses: dict[str, set[str]] = {}
    for names, statement in given:
        for bound in names:
            uses.setdefault(bound, set()).update(statement.uses)
    needed: set[str] = set()
    todo = [name]
    while todo:
        wanted = todo.pop()
        if wanted in uses and wanted not in needed:
            needed.add(wanted)
            todo += uses[wanted]
    return needed


def standalone(source: bytes | str, name: str) -> list[Statement]:
    """The statements of a script that a class needs. Their digest is that of the class in the whole script: every
    statement that binds a needed name is there."""
    statements = statements_of(source)
    gives = _gives(statements)
    needed = _needed(name, zip(gives, statements, strict=True))
    return _with_imports(statements, [n for n, names in enumerate(gives) if names & needed])


def slice_session(statements: Sequence[Statement], definition: int, name: str) -> list[Statement]:
    """The statements of a session that its class needs, in the order in which they were executed. `definition` is the
    number of the statement that defines the class.

    A cell may be executed many times, so a definition that was replaced before anything needed it is left out, and one
    that was repeated unchanged counts once."""
    gives = _gives(statements)
    late_of: dict[str, set[str]] = {}
    for statement in statements:
        for bound in statement.binds:
            late_of.setdefault(bound, set()).update(statement.late)
    wanted_at_end: set[str] = set()
    while True:
        kept, live = list[int](), set(wanted_at_end)
        for number in reversed(range(len(statements))):
            statement = statements[number]
            if number == definition or gives[number] & live:
                kept.append(number)
                live = (live - statement.replaces) | _reached(statement.now, late_of)
        # the class itself is there already, even if its name was given to another one since
        grown = wanted_at_end.union(*(statements[number].late for number in kept)) - {name}
        if grown == wanted_at_end:
            break
        wanted_at_end = grown
    return _with_imports(statements, _once(statements, gives, kept[::-1]))


def _reached(names: set[str], late_of: Mapping[str, set[str]]) -> set[str]:
    """The names, and all that their functions would read if they were called now."""
    reached, todo = set(names), list(names)
    while todo:
        more = late_of.get(todo.pop(), set()) - reached
        reached |= more
        todo += more
    return reached


def _once(statements: Sequence[Statement], gives: Sequence[set[str]], numbers: Iterable[int]) -> list[int]:
    """Without a statement that repeats an earlier one, if nothing that it binds or reads was changed in between."""
    kept: list[int] = []
    for number in numbers:
        statement = statements[number]
        twin = next((k for k in reversed(kept) if statements[k].dump == statement.dump), None)
        between = [] if twin is None else kept[kept.index(twin) + 1 :]
        touched: set[str] = set().union(*(gives[k] for k in between))
        if twin is None or touched & (gives[number] | statement.now):
            kept.append(number)
    return kept


def _gives(statements: Sequence[Statement]) -> list[set[str]]:
    """The names that each statement binds or may change."""
    fixed = _fixed(statements)
    return [s.binds | s.seeds | (s.changes - fixed) for s in statements]


def _fixed(statements: Iterable[Statement]) -> set[str]:
    """Names of modules, functions and classes: calling their attributes is not taken for a change of them."""
    kinds = Definition | ast.Import | ast.ImportFrom
    return {name for s in statements if isinstance(s.node, kinds) for name in s.binds}


def _with_imports(statements: Sequence[Statement], kept: Sequence[int]) -> list[Statement]:
    """With `from module import *` if a name has no other source, and with what comes from `__future__`, first."""
    stars = bool(unbound(statements[n] for n in kept))
    found = [s for n, s in enumerate(statements) if not s.is_future and (n in kept or (s.star and stars))]
    return [*{s.dump: s for s in statements if s.is_future}.values(), *found]


def unbound(statements: Iterable[Statement]) -> set[str]:
    """Names that the statements use and neither they nor Python itself define."""
    statements = list(statements)
    uses: set[str] = set().union(*(s.uses for s in statements))
    bound: set[str] = set().union(*(s.binds for s in statements))
    return {n for n in uses - bound - {"__name__", "__file__", "__doc__"} if not _is_builtin(n)}


def _is_builtin(name: str) -> bool:
    """IPython adds names of its own, such as `display`."""
    known = getattr(builtins, name, None)
    return hasattr(builtins, name) and not str(getattr(known, "__module__", "")).startswith("IPython")


def undefined(statements: Iterable[Statement], live: Mapping[str, Any]) -> list[str]:
    """Names that the statements use and do not define, though they have a value here."""
    statements = list(statements)
    starred: set[str] = set().union(*(vars(sys.modules[s.star]) for s in statements if s.star in sys.modules))
    return sorted(n for n in unbound(statements) - starred if n in live or hasattr(builtins, n))


def write(statements: Iterable[Statement], title: str, changes: bool = False) -> str:
    """The statements as a file. With `changes`, a statement that changes a variable in place also binds it, so that
    the digest of the file covers the change."""
    statements = list(statements)
    fixed = _fixed(statements)
    bound: set[str] = set().union(*(s.binds for s in statements))
    pieces = [f"# {title}"]
    for s in statements:
        changed = ((s.changes - fixed) | s.seeds) & bound - s.binds if changes else set()
        if changed:
            same = [ast.parse(f"{name} = {name}").body[0] for name in sorted(changed)]
            pieces.append(ast.unparse(ast.If(ast.Constant(True), [s.node, *same], [])))
        else:
            pieces.append(s.text)
    return "\n\n".join(pieces) + "\n"


# -- do a statement and a value agree? ---------------------------------------------------------------------------------


def contradicts(statement: Statement, name: str, value: Any, futures: Sequence[Statement] = ()) -> bool:
    """Whether the value of a name is not the one that the statement gives it: the cell failed before it came to the
    statement, or something else has set the name. Only literals, functions and methods can be compared."""
    node = statement.node
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and statement.replaces == {name}:
        if isinstance(node, ast.Assign) and not (len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            return False
        try:
            written = ast.literal_eval(node.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return False
        return type(written) is not type(value) or written != value
    if isinstance(node, Definition):
        whole = ast.Module([*(s.node for s in futures), node], [])
        code = _inner(compile(whole, "", "exec", dont_inherit=True), node.name)
        if isinstance(node, ast.ClassDef):
            if not isinstance(value, type):
                return not node.decorator_list
            methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef) and not n.decorator_list}
            methods = {n for n in methods if not n.startswith("__") or n.endswith("__")}  # else Python renames it
            return any(n not in vars(value) or _differ(vars(value)[n], _inner(code, n)) for n in methods)
        return not node.decorator_list and (not hasattr(value, "__code__") or _differ(value, code))
    return False


def outdated(statements: Sequence[Statement], live: Mapping[str, Any]) -> str | None:
    """A name that functions read and whose value here is not the one that the last of the statements gives it."""
    futures = [s for s in statements if s.is_future]
    for name in sorted(set[str]().union(*(s.late for s in statements))):
        last = next((s for s in reversed(statements) if name in s.binds | s.changes), None)
        if last is not None and name in last.replaces and name in live and contradicts(last, name, live[name], futures):
            return name
    return None


def _inner(code: Any, name: str) -> Any:
    """The code of the last function or class of that name inside some code."""
    return next((c for c in reversed(code.co_consts) if hasattr(c, "co_code") and c.co_name == name), None)


def _differ(function: Any, code: Any) -> bool:
    known = None if hasattr(function, "__wrapped__") else getattr(function, "__code__", None)
    return known is not None and code is not None and _shape(known) != _shape(code)


def _shape(code: Any) -> tuple[Any, ...]:
    inner = (_shape(c) if hasattr(c, "co_code") else c for c in code.co_consts)
    constants = tuple(c if isinstance(c, tuple | frozenset) else repr(c) for c in inner)  # a set's repr has no order
    return code.co_code, code.co_names, code.co_varnames, constants
