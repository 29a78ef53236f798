"""Genotypes: their strings, what is live in them, and the form that says which of them are one function."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_cases import EVERY

from uraenas.base.errors import UraenasError
from uraenas.spaces import CellSpace, Genotype, architecture_count
from uraenas.spaces.cells import CONVOLUTIONS, edges

SPACE = CellSpace()
EDGES = edges(4)
genotypes = st.sampled_from(EVERY)
SHORT = {"0": "none", "s": "skip_connect", "1": "nor_conv_1x1", "3": "nor_conv_3x3", "p": "avg_pool_3x3"}


def cell(first: str, second: str, third: str) -> Genotype:
    """A genotype from one letter per edge: into node 1, into node 2, into node 3."""
    return Genotype(tuple(SHORT[letter] for letter in first + second + third))


def test_there_are_15625_different_genotypes() -> None:
    assert len(EVERY) == len(set(EVERY)) == architecture_count(SPACE) == 15_625


def test_every_genotype_survives_string_and_indices() -> None:
    for genotype in EVERY:
        assert SPACE.parse(str(genotype)) == genotype
        assert SPACE.architecture(SPACE.indices(genotype)) == genotype
    assert len({str(genotype) for genotype in EVERY}) == len(EVERY)


def test_the_string_is_the_benchmarks() -> None:
    text = "|nor_conv_3x3~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|none~2|"
    assert str(cell("3", "1p", "s30")) == text
    assert SPACE.parse(f"  {text}\n") == cell("3", "1p", "s30")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|+|none~0|",
        "|none~0|+|none~1|none~0|+|none~0|none~1|none~2|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2",
        "none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
        "||none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
        "|none~0||+|none~0|none~1|+|none~0|none~1|none~2|",
        "|none~٠|+|none~0|none~1|+|none~0|none~1|none~2|",
        "|none|+|none~0|none~1|+|none~0|none~1|none~2|",
    ],
)
def test_a_string_of_another_shape_is_refused_with_the_right_shape(text: str) -> None:
    with pytest.raises(UraenasError, match=r"cannot read genotype .*expected \|op~0\|"):
        SPACE.parse(text)


@pytest.mark.parametrize(
    "text", ["|none~0|", "|none~0|+|none~0|none~1|", f"{EVERY[0]}+|none~0|none~1|none~2|none~3|"]
)
def test_a_cell_of_another_size_is_refused_with_what_the_space_has(text: str) -> None:
    with pytest.raises(UraenasError, match=r"is no cell of nasbench201: 4 nodes, with none, skip_connect"):
        SPACE.parse(text)


def test_an_unknown_operation_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UraenasError, match=r"nor_conv_3x4.*Did you mean 'nor_conv_3x3'"):
        SPACE.parse("|nor_conv_3x4~0|+|none~0|none~1|+|none~0|none~1|none~2|")


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=80) | st.text(alphabet="|+~01 none_skpcotvr3x", max_size=90))
def test_no_text_gets_past_the_reader_but_a_genotype(text: str) -> None:
    try:
        genotype = SPACE.parse(text)
    except UraenasError:
        return
    assert str(genotype) == text.strip()


@settings(max_examples=300, deadline=None)
@given(genotype=genotypes, position=st.integers(0, 200), letter=st.characters(codec="utf-8"))
def test_a_string_with_one_letter_changed_is_refused_or_another_genotype(
    genotype: Genotype, position: int, letter: str
) -> None:
    text = str(genotype)
    position %= len(text)
    changed = text[:position] + letter + text[position + 1 :]
    if changed.strip() == text:
        return
    try:
        read = SPACE.parse(changed)
    except UraenasError:
        return
    assert str(read) == changed.strip() != text


@pytest.mark.parametrize("count", [0, 2, 5, 7])
def test_a_genotype_needs_an_operation_on_each_edge_of_a_cell(count: int) -> None:
    with pytest.raises(UraenasError, match=f"{count} operations do not make a cell"):
        Genotype(("none",) * count)


def test_a_genotype_needs_operations_that_exist_and_each_is_named_once() -> None:
    with pytest.raises(UraenasError, match="unknown operation '%'") as error:
        Genotype(("none",) * 5 + ("%",))
    assert [str(error.value).count(name) for name in SHORT.values()] == [1] * len(SHORT)


def paths_by_brute_force(genotype: Genotype) -> list[tuple[int, ...]]:
    """Every path from input to output, as the edges it runs along."""
    found = []

    def walk(node: int, path: tuple[int, ...]) -> None:
        if node == 3:
            found.append(path)
        for edge, (source, target) in enumerate(EDGES):
            if source == node and genotype.operations[edge] != "none":
                walk(target, (*path, edge))

    walk(0, ())
    return found


def test_live_edges_are_those_on_some_path_from_input_to_output() -> None:
    connected = 0
    for genotype in EVERY:
        paths = paths_by_brute_force(genotype)
        assert genotype.live_edges == tuple(sorted(set(itertools.chain(*paths)))), genotype
        assert genotype.connected == bool(paths)
        connected += genotype.connected
    assert 0 < connected < len(EVERY)


# The canonical form


def test_dead_edges_do_not_count_in_the_form() -> None:
    alone = cell("0", "00", "300")
    for dead in (
        cell("3", "00", "300"),
        cell("0", "03", "303"),
        cell("1", "p3", "300"),
        cell("0", "0s", "3p0"),
    ):
        assert dead.canonical.text == alone.canonical.text
        assert len(dead.canonical.convolutions) == 1


def test_skips_are_flattened_into_sums() -> None:
    straight = cell("0", "00", "300").canonical.text
    assert cell("s", "00", "030").canonical.text == straight  # skip, then convolution
    assert cell("3", "00", "0s0").canonical.text == straight  # convolution, then skip
    assert cell("s", "0s", "003").canonical.text == straight
    assert cell("s", "00", "3s0").canonical.text == cell("0", "s0", "30s").canonical.text  # x + conv(x)
    # Two skips make x twice, which is another function than x once.
    assert cell("s", "00", "ss0").canonical.text != cell("0", "00", "s00").canonical.text


def test_one_convolution_used_twice_is_not_two() -> None:
    used_twice = cell("3", "0s", "0ss")  # node 1 = conv(x); it reaches the output directly and by node 2
    two = cell("0", "30", "30s")  # two convolutions of x, added
    assert len(used_twice.canonical.convolutions) == 1
    assert len(two.canonical.convolutions) == 2
    assert used_twice.canonical.text != two.canonical.text
    # The same inside another convolution: conv(a) + conv(a) of one a, against one a each.
    assert cell("3", "0s", "033").canonical.text != cell("3", "30", "033").canonical.text


def test_exchanging_alike_convolutions_does_not_change_the_form() -> None:
    # node 1 and node 2 are each a convolution of x; one of them is pooled, whichever it is
    assert cell("3", "30", "0ps").canonical.text == cell("3", "30", "0sp").canonical.text
    # … and with a different kernel they are no longer alike
    assert cell("3", "10", "0ps").canonical.text != cell("3", "10", "0sp").canonical.text


def test_pools_of_one_map_are_one_map() -> None:
    assert cell("p", "p0", "0ss").canonical.text == cell("p", "0s", "0ss").canonical.text
    assert cell("p", "00", "0s0").canonical.text != cell("p", "0p", "00s").canonical.text


def test_a_disconnected_genotype_has_the_empty_form() -> None:
    forms = {g.canonical.text for g in EVERY[::7] if not g.connected}
    assert forms == {cell("0", "00", "000").canonical.text}
    assert cell("3", "33", "000").canonical.convolutions == ()


def test_the_form_names_each_live_convolution_once() -> None:
    for genotype in EVERY[::11]:
        live = [edge for edge in genotype.live_edges if genotype.operations[edge] in CONVOLUTIONS]
        assert sorted(genotype.canonical.convolutions) == live


# An independent notion of sameness: the cell's value for random "weights", as an element of a ring in which
# every convolution is a random nonlinear function of its own and the pool another. Two genotypes are one function
# where some assignment of convolutions to convolutions makes the values agree.

FIELD = 2**61 - 1


def value(genotype: Genotype, functions: dict[int, int]) -> int:
    """Output for the input 12345 when convolution e is x ↦ (x + r_e)³ with r_e = functions[e], and pool another."""
    nodes = [12345, 0, 0, 0]
    for edge in genotype.live_edges:
        source, target = EDGES[edge]
        x, operation = nodes[source], genotype.operations[edge]
        if operation == "avg_pool_3x3":
            x = pow(x + 987654321, 5, FIELD)
        elif operation in CONVOLUTIONS:
            x = pow(x + functions[edge], 3 if CONVOLUTIONS[operation] == 3 else 7, FIELD)
        nodes[target] = (nodes[target] + x) % FIELD
    return nodes[-1]


def test_genotypes_of_one_form_are_one_function_and_those_of_two_forms_are_two() -> None:
    """For all 15,625: values under matched functions agree within a form, and tell any two forms apart."""
    random = [pow(7, 1000 + k, FIELD) for k in range(6)]
    by_form: dict[str, int] = {}
    by_best_value: dict[int, str] = {}
    for genotype in EVERY:
        form = genotype.canonical
        matched = value(genotype, dict(zip(form.convolutions, random, strict=False)))
        assert by_form.setdefault(form.text, matched) == matched, genotype
        # The least value over all assignments of functions to convolutions of one kernel depends on the function only.
        if len(form.convolutions) <= 3:
            edges = sorted(form.convolutions)
            least = min(
                value(genotype, dict(zip(order, random, strict=False)))
                for order in itertools.permutations(edges)
            )
            assert by_best_value.setdefault(least, form.text) == form.text, genotype
    assert len(by_form) > 5_000
