"""The paper's table, to be held against: CIFAR-10 and CIFAR-10-C, ten members, 2022."""

from uraenas.report.blocks import Cell, Line, Table
from uraenas.report.table import COLUMNS, DISAGREEMENT

ROWS: dict[str, tuple[float | None, ...]] = {  # in the order of COLUMNS, then disagreement
    "DrNAS, one network": (0.9436, 0.040, 0.280, 0.7261, 0.216, 1.608, None),
    "UraeNAS-w": (0.9437, 0.029, 0.247, 0.7491, 0.159, 1.178, 0.046),
    "UraeNAS-a": (0.9509, 0.025, 0.301, 0.7466, 0.155, 1.111, 0.082),
    "UraeNAS": (0.9522, 0.023, 0.230, 0.7504, 0.151, 1.110, 0.053),
}


def reference() -> Table:
    columns = (*COLUMNS, DISAGREEMENT)
    lines = [
        Line(name, [Cell(column.show(value)) for column, value in zip(columns, values, strict=True)])
        for name, values in ROWS.items()
    ]
    caption = (
        "From the paper (Premchandar and others, 2022, Table 1): CIFAR-10 and CIFAR-10-C, ten members, one run "
        "each. Its suite has 20 corruptions, so columns with c are not quite those of this page."
    )
    return Table(caption, ["Paper", *(column.title for column in columns)], lines)
