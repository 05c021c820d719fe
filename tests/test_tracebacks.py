"""An error that is raised holds, by its trace, each frame that it passes: one whose variable holds
the error, or the task that ended with it, lets go of it in `finally`. Else both stay until the
garbage collector comes, which here is seldom (docs/decisions/0012).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "armory"
Function = ast.FunctionDef | ast.AsyncFunctionDef
MAKERS = {"start", "spawn", "create_task", "ensure_future", "run_in_executor", "gather", "shield"}
FUTURES = ("asyncio.Task", "asyncio.Future")


def own(function: Function) -> Iterator[ast.AST]:
    """What a function consists of, without the functions inside it."""
    inside: list[ast.AST] = list(function.body)
    while inside:
        yield (node := inside.pop())
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            inside += ast.iter_child_nodes(node)


def stored(nodes: list[ast.AST]) -> set[str]:
    """Names that hold what was assigned to them; one of `except ... as` ends with the block."""
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def let_go(nodes: list[ast.AST]) -> set[str]:
    """Names that a `finally` deletes or sets to something else."""
    ends = [e for n in nodes if isinstance(n, ast.Try) for s in n.finalbody for e in ast.walk(s)]
    return {e.id for e in ends if isinstance(e, ast.Name) and not isinstance(e.ctx, ast.Load)}


def futures(function: Function, nodes: list[ast.AST]) -> set[str]:
    """Names of tasks and futures: parameters, and what is started here."""
    args = [*function.args.args, *function.args.kwonlyargs]
    noted = {a.arg: "" if a.annotation is None else ast.unparse(a.annotation) for a in args}
    found = {name for name, kind in noted.items() if kind.startswith(FUTURES)}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            maker = ast.unparse(node.value.func).rpartition(".")[2]
            if maker in MAKERS:
                found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return found - well(nodes)


def well(nodes: list[ast.AST]) -> set[str]:
    """Names of tasks of which an `if` says that they have no error."""
    tests = [e for n in nodes if isinstance(n, ast.If) for e in ast.walk(n.test)]
    asked = [e.value for e in tests if isinstance(e, ast.Attribute) and e.attr == "exception"]
    return {name.id for name in asked if isinstance(name, ast.Name)}


def raised(node: ast.AST, tasks: set[str]) -> str | None:
    """The name whose error this raises here."""
    match node:
        case ast.Raise(exc=ast.Name(id=name)):
            return name
        case ast.Await(value=ast.Name(id=name)) if name in tasks:
            return name
        case ast.Await(value=ast.Call(args=[ast.Name(id=name), *_])) if name in tasks:
            waits = ast.unparse(node.value.func)  # pyright: ignore[reportAttributeAccessIssue]
            return name if waits.endswith(("shielded", "wait_for", "cancellable")) else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="result")) if name in tasks:
            return name
        case _:
            return None


def held(tree: ast.Module) -> Iterator[str]:
    """Where an error passes a frame that holds it."""
    for function in ast.walk(tree):
        if isinstance(function, Function):
            nodes = list(own(function))
            tasks = futures(function, nodes)
            kept = (stored(nodes) | tasks) - let_go(nodes)
            for node in nodes:
                if (name := raised(node, tasks)) in kept:
                    yield f"{getattr(node, 'lineno', 0)} {function.name}: {name}"


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n error = make()\n raise error",
        "async def f():\n task = start(work(), 'name')\n return await task",
        "async def f():\n task = self._tasks.spawn(work(), 'name')\n return await shielded(task)",
        "def f(task: asyncio.Task[int]):\n return task.result()",
    ],
)
def test_what_holds_its_own_frame_is_found(code: str) -> None:
    assert list(held(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n raise make()",
        "def f():\n try:\n  g()\n except OSError as error:\n  raise error",
        "def f():\n error = make()\n try:\n  raise error\n finally:\n  del error",
        "async def f():\n task = start(g(), '')\n try:\n  await task\n finally:\n  task = None",
        "async def f():\n task = start(g(), '')\n await asyncio.wait((task,))",
    ],
)
def test_what_lets_go_is_not(code: str) -> None:
    assert not list(held(ast.parse(code)))


def test_no_frame_holds_the_error_that_passes_it() -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{where}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "testing" not in path.parts
        for where in held(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)
