"""What each setting is for, in a line: the comment beside its field, which is where it is explained."""

import ast
import inspect
import io
import re
import tokenize
from functools import cache

# Names that mean the same in every part; a comment beside a field says more, and comes first.
WORDS = {
    "seed": "decides all that is drawn: split, search, initial weights, batches",
    "methods": "what is trained and compared",
    "weights": "how weights are learned meanwhile",
    "space": "which networks exist",
    "epochs": "passes over the images",
    "queries": "networks that are trained and asked",
    "step_size": "of the optimiser, at its largest",
    "momentum": "share of the last step that the next one keeps",
    "betas": "Adam's decay of the mean and of the mean square",
    "regulariser_weight": "how strongly the distribution is drawn to its beginning",
    "population": "architectures that are kept to be changed",
    "cycles": "of the step size, from its largest to nearly 0",
    "temperature": "of the noise: 1 samples the posterior, 0 has none",
    "prior_deviation": "standard deviation of the weights' normal prior",
    "smoothing": "share of each label that is spread over all classes",
    "rate": "probability with which something is left out",
    "inputs": "images that a network reads at once, each with its own head",
    "members": "networks of an ensemble",
    "test_time": "other ways to predict, measured beside: views (mirrored, moved), statistics (of the test images)",
    "severities": "how strongly images are shifted, 1 to 5",
}


def explained(kind: type, name: str) -> str:
    """What a field of a part is for."""
    return comments_of(kind).get(name) or WORDS.get(name, "")


@cache
def comments_of(kind: type) -> dict[str, str]:
    """The comments beside the fields of a dataclass, by field; those of its bases count too."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        try:
            source = inspect.cleandoc("\n" + inspect.getsource(one)) + "\n"
        except (OSError, TypeError):
            continue  # typed into a shell
        found |= _in(source)
    return found


def _in(source: str) -> dict[str, str]:
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)).body
    words = {
        token.start[0]: re.sub(r"^#\s*", "", token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            beside = [words[line] for line in lines if line in words]
            above = (
                [words[node.lineno - 1]]
                if node.lineno - 1 in words and _is_alone(source, node.lineno - 1)
                else []
            )
            if comment := " ".join(beside or above):
                found[node.target.id] = comment
    return found


def _is_alone(source: str, line: int) -> bool:
    return source.splitlines()[line - 1].lstrip().startswith("#")
