"""The floors, the length of files, loops over the tree, docstrings, and what an import may do."""

import ast
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "jaxdyn"
FILES = sorted(PACKAGE.rglob("*.py"))

#: lowest first; a file imports from floors below its own and from its own folder
FLOORS = (
    "spatial",
    "geometry",
    "engine",
    "tree",
    "model",
    "robots",
    "loaders",
    "kinematics",
    "dynamics",
    "systems",
    "constrained",
    "delassus",
    "contact",
    "simulate",
)
#: floors that only the top may import: nothing of the engine knows of files
TOP_ONLY = {"loaders"}
#: above the top: the command line uses all, and nothing uses it
COMMANDS = {"commands", "__main__"}
#: what lists the tree from body to body; a loop over one is a loop over the tree
TREE = {"parents", "depths", "children", "ancestors"}
#: what lists bodies; a loop over one is a loop over the tree when it also looks at parents
NODES = {"nb", "kinds", "body_names", "order"}
#: the two loops over the tree, by file and function: all recursions are tables that one of them lists
LOOPS = {"sweep.down", "sweep.up"}
#: what follows a single path: how a wrench rides from its body to the root
PATHS = {"carried._ride"}
#: the elimination of a joint, by file and function
ELIMINATION = {"articulated.eliminate_columns"}
#: import names of the core dependencies, where they differ from the distribution's
DISTRIBUTIONS = {"yaml": "pyyaml"}
#: lines of code that a function may have, its docstring not counted
LONGEST = 60
#: functions that are longer still, by file and name, and their lines. This list only shrinks: split a function and
#: delete its line; a new one does not get in
LONG = {
    "cli.parser": 91,
    "demo.run": 68,
    "objects._join": 64,
}
#: what only some functions need is imported inside them
OPTIONAL = {"mujoco", "pinocchio", "matplotlib", "example_robot_data", "optax", "scipy", "trimesh"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def floor_of(module: tuple[str, ...]) -> int:
    """Floor of a module given as path parts below the package; files at the top stand above all floors but the
    command line."""
    if module[:1] and module[0] in COMMANDS:
        return len(FLOORS) + 1
    if len(module) > 1 or (len(module) == 1 and (PACKAGE / module[0]).is_dir()):
        return FLOORS.index(module[0])
    return len(FLOORS)


def parts_of(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports_of(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    """(line, module below the package) for every import of jaxdyn in a file, those inside functions too."""
    here = path.relative_to(PACKAGE).parent.parts
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names]
            found += [(node.lineno, tuple(n[1:])) for n in names if n[0] == "jaxdyn"]
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = here[: len(here) - (node.level - 1)] + module
            elif module[:1] == ("jaxdyn",):
                base = module[1:]
            else:
                continue
            # `from . import x` names modules, `from .x import y` names what is in one
            for alias in node.names:
                inner = (*base, alias.name)
                file = PACKAGE.joinpath(*inner)
                found.append((node.lineno, inner if file.is_dir() or file.with_suffix(".py").exists() else base))
    return found


def test_every_folder_is_a_floor():
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.glob("*.py"))}
    without = sorted(folders - set(FLOORS) - COMMANDS)
    assert not without, f"folders without a floor: {without}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_come_from_floors_below(path):
    here = parts_of(path)
    own = floor_of(here) if here else len(FLOORS)
    bad = []
    for line, module in imports_of(path):
        floor = floor_of(module) if module else len(FLOORS)
        same = bool(module and here) and module[0] == here[0] and own != len(FLOORS)
        top = own >= len(FLOORS)
        if not (same or floor < own or (top and floor == own and module != here)):
            bad.append(f"{name_of(path)}:{line} imports jaxdyn.{'.'.join(module)}")
        elif module and module[0] in TOP_ONLY and not (same or top):
            bad.append(f"{name_of(path)}:{line} imports jaxdyn.{'.'.join(module)}, which only the top may")
    assert not bad, "\n".join(bad)


def test_modules_import_each_other_in_one_direction():
    """No cycle of imports, inside a folder or between top-level files."""
    graph = {parts_of(p): {m for _, m in imports_of(p)} - {parts_of(p)} for p in FILES}
    done: set[tuple[str, ...]] = set()

    def visit(module, trail):
        if module in trail:
            raise AssertionError("cycle of imports: " + " -> ".join(".".join(m) for m in (*trail, module)))
        if module in done or module not in graph:
            return
        for other in graph[module]:
            visit(other, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_short(path):
    assert len(path.read_text().splitlines()) <= 400


def lengths_of(source: str) -> list[tuple[str, int]]:
    """(name, lines) of every function in a file, inner ones too; a docstring does not count."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0] if ast.get_docstring(node) is not None else None
            lines = node.end_lineno - node.lineno + 1
            found.append((node.name, lines - (doc.end_lineno - doc.lineno + 1 if doc else 0)))
    return found


def test_functions_are_short():
    found = [(f"{p.stem}.{name}", lines) for p in FILES for name, lines in lengths_of(p.read_text())]
    long = {name: lines for name, lines in found if lines > LONGEST}
    grown = {name: lines for name, lines in long.items() if lines > LONG.get(name, 0)}
    assert not grown, f"functions of more than {LONGEST} lines, or that have grown: {grown}; split them"
    short = sorted(set(LONG) - set(long))
    assert not short, f"these are short now, so delete them from LONG: {short}"


def test_the_check_counts_lines_of_functions():
    source = 'def f():\n    """Two\n    lines."""\n    def g():\n        return 1\n    return g\n'
    assert lengths_of(source) == [("f", 4), ("g", 2)]


def mentions(node: ast.AST) -> set[str]:
    """Names and attributes in an expression, but not those of which it takes a single element."""
    single = {
        id(n.value) for n in ast.walk(node) if isinstance(n, ast.Subscript) and not isinstance(n.slice, ast.Slice)
    }
    found = [n for n in ast.walk(node) if isinstance(n, ast.Attribute | ast.Name) and id(n) not in single]
    return {n.attr if isinstance(n, ast.Attribute) else n.id for n in found}


def everything(nodes: list[ast.AST]) -> set[str]:
    found = [n for node in nodes for n in ast.walk(node)]
    return {n.attr for n in found if isinstance(n, ast.Attribute)} | {n.id for n in found if isinstance(n, ast.Name)}


def tree_loops(source: str) -> list[int]:
    """Lines of loops that go from parents to children or back: over a list of the tree, or over its nodes while
    looking at parents; climbs by `while` too. A loop that treats each body by itself is none."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.For):
            loops = [(node.iter, list(node.body))]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            loops = [(g.iter, [*results, *g.ifs]) for g in node.generators]
        elif isinstance(node, ast.While):
            loops = []
            if everything([node]) & TREE:
                found.append(node.lineno)
        else:
            continue
        for iterated, body in loops:
            over = mentions(iterated)
            if over & TREE or (over & NODES and everything(body) & TREE):
                found.append(node.lineno)
    return sorted(found)


def functions_of(path: Path) -> list[tuple[str, ast.FunctionDef]]:
    """(file and name, function) of all functions in a file."""
    found = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    return [(f"{path.stem}.{n.name}", n) for n in found]


def looping(path: Path) -> set[str]:
    """Functions with a loop over the tree, by file and name."""
    return {name for name, node in functions_of(path) if tree_loops(ast.unparse(node))}


@pytest.mark.parametrize("path", [p for p in FILES if parts_of(p)[:1] != ("tree",)], ids=name_of)
def test_no_tree_loop_outside_the_tree(path):
    source = path.read_text()
    if not looping(path) & PATHS:
        assert not tree_loops(source), (
            f"{name_of(path)}: loops over the tree in lines {tree_loops(source)}; use a sweep"
        )
    assert looping(path) <= PATHS


def lists_rows(node: ast.FunctionDef) -> bool:
    """Whether a function makes the rows of a table in a loop that looks at parents."""
    kinds = ast.For | ast.While | ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    loops = [everything([n]) for n in ast.walk(node) if isinstance(n, kinds)]
    return any(names & {"row", "Row"} and names & TREE for names in loops)


def test_there_are_two_loops_over_the_tree():
    """All recursions are tables that list bodies by `down` and `up`."""
    makers = [p for p in FILES if ("engine", "steps") in {module for _, module in imports_of(p)}]
    found = {name for p in makers for name, node in functions_of(p) if lists_rows(node)}
    assert found == LOOPS | PATHS


def eliminates(node: ast.FunctionDef) -> bool:
    """Whether a function goes through a joint's columns and divides by what armature is added to."""
    loops = [n for n in ast.walk(node) if isinstance(n, ast.For) and "columns" in mentions(n.iter)]
    parts = [x for loop in loops for x in ast.walk(loop)]
    quotients = [x.right for x in parts if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Div)]
    return any("armature" in everything([q]) for q in quotients)


def test_there_is_one_elimination_of_joints():
    """Whatever the solver: what becomes of rows is a rule that it is given."""
    found = {name for p in FILES for name, node in functions_of(p) if eliminates(node)}
    assert found == ELIMINATION


@pytest.mark.parametrize(
    "source",
    [
        "for d in t.depths[::-1]: pass",
        "x = [j for j in reversed(t.parents)]",
        "while b != -1:\n    b = t.parents[b]",
        "for b in range(t.nb):\n    x[t.parents[b]] += x[b]",
        "for x in order:\n    f(y[x.body], t.parents[x.body])",
    ],
)
def test_the_check_sees_tree_loops(source):
    assert tree_loops(source) == [1]


@pytest.mark.parametrize(
    "source", ["for x in rows: pass", "for y in (b, t.parents[b]): pass", "[x.body for x in order]"]
)
def test_the_check_sees_no_other_loops(source):
    assert tree_loops(source) == []


def public() -> dict:
    import jaxdyn

    found = {}
    families = [x for x in (getattr(jaxdyn, n) for n in jaxdyn.__all__) if inspect.ismodule(x)]
    for place in (jaxdyn, *families):
        found |= {f"{place.__name__}.{n}": getattr(place, n) for n in place.__all__}
    return {n: x for n, x in found.items() if not inspect.ismodule(x)}


@pytest.mark.parametrize("name", sorted(public()))
def test_public_names_have_docstrings(name):
    doc = vars(public()[name]).get("__doc__") if inspect.isclass(public()[name]) else inspect.getdoc(public()[name])
    assert doc and doc.strip(), f"{name} has no docstring"
    # dataclasses and modules without one get their signature as docstring
    assert not doc.startswith(f"{name.split('.')[-1]}("), f"{name} has no docstring of its own"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_changes_nothing():
    """No jax setting, no backend and thus no array, no environment, no NumPy error state, no warning filter."""
    run(
        """
import os, sys, warnings, logging
import equinox, jax, jaxtyping, lxml.etree, numpy, tqdm, yaml
from jax._src import xla_bridge
state = lambda: (dict(jax.config.values), dict(os.environ), numpy.geterr(), list(warnings.filters),
                 logging.getLogger().handlers[:], logging.getLogger().level, sys.path[:], sys.excepthook)
before = state()
assert not xla_bridge.backends_are_initialized(), "the test itself starts a backend"
import jaxdyn
assert not xla_bridge.backends_are_initialized(), "importing jaxdyn starts a backend (an array is made at import)"
after = state()
for b, a in zip(before, after):
    assert a == b, f"importing jaxdyn changes {b} to {a}"
"""
    )


def test_import_needs_core_dependencies_only():
    loaded = set(run("import sys, jaxdyn; print(*{m.split('.')[0] for m in sys.modules})").split())
    assert not loaded & OPTIONAL, f"importing jaxdyn imports {sorted(loaded & OPTIONAL)}"


def test_imports_are_declared():
    """What the package imports is a core dependency, or an optional one imported inside the function that needs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {d.split(">")[0].split("=")[0].split("<")[0].split("[")[0].strip() for d in project["dependencies"]}
    bad = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        nested = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for top in {n.split(".")[0] for n in names} - {"jaxdyn"} - sys.stdlib_module_names:
                if DISTRIBUTIONS.get(top, top) not in core and not (top in OPTIONAL and node in nested):
                    bad.append(f"{name_of(path)}:{node.lineno} imports {top}")
    assert not bad, "\n".join(bad)
