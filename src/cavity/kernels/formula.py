"""Kernels from text: the same text that `repr` prints, read without ever running it.

    kernel   := Name(arguments) | (kernel) | kernel + kernel | kernel * kernel | kernel ** integer
              | kernel.on(columns)
    Name     := SE, Matern, Periodic, ... (any kernel of this package)
    argument := kernel | number | text | list | True | False | None
              | ard | ard(start) | Param(...) | fixed(...) | a prior

A number or a `Param` beside `*` scales, beside `+` adds a constant. Python's own parser builds the tree; only
the nodes above are accepted, names are looked up in a fixed table, and nothing else of the language is
reachable.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

from cavity.kernels.base import Kernel

MAX_LENGTH = 100_000
"""Characters of a kernel text: enough for thousands of values, and nonsense is refused quickly."""

MAX_DEPTH = 100
"""Levels of nesting."""

MAX_EXPONENT = 100
"""Largest exponent after `**`."""


ELSEWHERE = {
    "RBF": "SE",
    "SquaredExponential": "SE",
    "Gaussian": "SE",
    "ExpQuad": "SE",
    "Exponential": "Matern(nu=0.5)",
    "Matern12": "Matern(nu=0.5)",
    "Matern32": "Matern(nu=1.5)",
    "Matern52": "Matern(nu=2.5)",
    "RQ": "RationalQuadratic",
    "RatQuad": "RationalQuadratic",
    "ExpSineSquared": "Periodic",
    "DotProduct": "Linear",
    "WhiteKernel": "White",
    "ConstantKernel": "Constant",
    "Coregion": "Categorical",
}
"""What kernels are called in other libraries, for the hint in an error."""


@cache
def _kernels() -> Mapping[str, Callable[..., Any]]:
    """Names that make kernels."""
    import cavity.kernels as package

    hidden = (package.Kernel, package.Stationary)
    found = {name: getattr(package, name) for name in package.__all__}
    return {
        n: k for n, k in found.items() if isinstance(k, type) and issubclass(k, Kernel) and k not in hidden
    }


@cache
def _helpers() -> Mapping[str, Callable[..., Any]]:
    """Names that make arguments: parameters, transforms, priors."""
    from cavity.kernels.automatic_relevance import ard
    from cavity.parameters import param as hyper
    from cavity.parameters import priors

    table: dict[str, Callable[..., Any]] = {
        "Param": hyper.Param,
        "fixed": hyper.fixed,
        "Log": hyper.Log,
        "Logit": hyper.Logit,
        "Transform": hyper.Transform,
        "ard": ard,
        "float": float,  # for infinite bounds
    }
    for name, prior in vars(priors).items():
        if isinstance(prior, type) and not name.startswith("_") and hasattr(prior, "log_density"):
            table.setdefault(name, prior)
    return table


def parse(text: str) -> Kernel:
    """The kernel that a text describes.

    Parameters
    ----------
    text : str
        A formula such as `"1.0 * SE(ard) + Linear()"`, or what `repr` prints for a kernel.

    Raises
    ------
    ValueError
        With the position and the alternatives, if the text is not a kernel.

    Examples
    --------
    >>> from cavity.kernels import parse
    >>> parse("2*SE(1) + White(0.1)")
    2.0 * SE(lengthscale=1.0) + White(variance=0.1)
    """
    if not isinstance(text, str):
        raise ValueError(f"a kernel text must be a string, got {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a kernel text may have {MAX_LENGTH} characters, got {len(text)}")
    stripped = re.sub(r"\s", " ", text.strip())  # a formula may run over several lines
    try:
        tree = ast.parse(stripped, mode="eval")
    except SyntaxError as error:
        if not error.offset:  # what the parser says of a text that ends where something must follow
            raise ValueError(_message(stripped, len(stripped), "the formula ends too early")) from None
        raise ValueError(_message(stripped, error.offset - 1, error.msg)) from None
    except (RecursionError, MemoryError, ValueError):
        raise ValueError("this kernel text cannot be read; is it nested too deeply?") from None
    result = _Reader(stripped).value(tree.body, 0)
    if not isinstance(result, Kernel):
        raise ValueError(f"{stripped!r} is not a kernel; write for example '1.0 * SE(ard) + White(0.1)'")
    return result


def _message(text: str, column: int, problem: str) -> str:
    start, stop = max(0, column - 30), column + 30
    return (
        f"{problem}, at position {column + 1} of the kernel text:\n"
        f"  {text[start:stop]}\n  {' ' * (column - start)}^"
    )


class _Reader:
    """Turns a syntax tree into values, one kind of node at a time."""

    def __init__(self, text: str) -> None:
        self.text = text

    def fail(self, node: ast.AST, problem: str) -> NoReturn:
        in_bytes = getattr(node, "col_offset", 0)
        column = len(self.text.encode()[:in_bytes].decode(errors="ignore"))
        raise ValueError(_message(self.text, column, problem))

    def value(self, node: ast.AST, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self.fail(node, f"more than {MAX_DEPTH} levels of nesting")
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.List(elts=items):
                return [self.value(item, depth + 1) for item in items]
            case ast.Tuple(elts=items):
                return tuple(self.value(item, depth + 1) for item in items)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                number = self.value(operand, depth + 1)
                if isinstance(number, bool) or not isinstance(number, int | float):
                    self.fail(node, "a sign can stand only before a number")
                return -number if isinstance(node.op, ast.USub) else number
            case ast.BinOp():
                return self.operation(node, depth)
            case ast.Call():
                return self.call(node, depth)
            case ast.Name(id=name):
                return self.name(node, name)
            case _:
                return self.fail(
                    node, "only kernels, numbers, lists, names, + * ** and .on(...) are allowed here"
                )

    def name(self, node: ast.AST, name: str) -> Any:
        if name == "ard":
            return _helpers()["ard"]
        if name in _kernels():
            self.fail(node, f"{name} needs parentheses: {name}()")
        return self.unknown(node, name)

    def unknown(self, node: ast.AST, name: str) -> NoReturn:
        known = [*_kernels(), *_helpers()]
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.6) or [
            k for k in known if k.lower() == name.lower()
        ]
        close = [ELSEWHERE[name]] if name in ELSEWHERE else close
        hint = f"did you mean {close[0]}? " if close else ""
        kernels = ", ".join(sorted(_kernels()))
        self.fail(node, f"unknown name {name!r}; {hint}The kernels are {kernels}")

    def operation(self, node: ast.BinOp, depth: int) -> Any:
        from cavity.parameters.param import Param

        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        if isinstance(node.op, ast.Pow):
            if not isinstance(left, Kernel):
                self.fail(node, "only a kernel can be raised to a power")
            if isinstance(right, bool) or not isinstance(right, int) or not 1 <= right <= MAX_EXPONENT:
                self.fail(node.right, f"the exponent must be a whole number from 1 to {MAX_EXPONENT}")
            return left**right
        if not isinstance(node.op, ast.Add | ast.Mult):
            self.fail(node, "kernels combine with +, * and ** only")
        for side, tree in ((left, node.left), (right, node.right)):
            if isinstance(side, bool) or not isinstance(side, Kernel | Param | int | float):
                self.fail(tree, "a kernel, a number or a Param is expected beside + and *")
        if not isinstance(left, Kernel) and not isinstance(right, Kernel):
            self.fail(node, "one side of + and * must be a kernel; write the number out")
        return self.attempt(node, lambda: left + right if isinstance(node.op, ast.Add) else left * right)

    def call(self, node: ast.Call, depth: int) -> Any:
        if any(keyword.arg is None for keyword in node.keywords):
            self.fail(node, "** arguments are not allowed")
        arguments = [self.value(a, depth + 1) for a in node.args]
        keywords = {str(k.arg): self.value(k.value, depth + 1) for k in node.keywords}
        match node.func:
            case ast.Attribute(attr="on", value=inner):
                kernel = self.value(inner, depth + 1)
                if not isinstance(kernel, Kernel):
                    self.fail(node, ".on(...) belongs after a kernel")
                return self.attempt(node, lambda: kernel.on(*arguments, **keywords))
            case ast.Attribute(attr=attribute):
                return self.fail(node, f".{attribute} is not allowed; only .on(columns) can follow a kernel")
            case ast.Name(id=name):
                maker = _kernels().get(name) or _helpers().get(name)
                if maker is None:
                    self.unknown(node.func, name)
                return self.attempt(node, lambda: maker(*arguments, **keywords))
            case _:
                return self.fail(node, "only kernels, Param, fixed, ard, transforms and priors can be called")

    def attempt(self, node: ast.AST, make: Callable[[], Any]) -> Any:
        """Run a constructor; its complaint becomes an error with a position."""
        try:
            return make()
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, ValueError) and "of the kernel text" in str(error):
                raise
            self.fail(node, str(error).replace(".__init__()", "()"))
