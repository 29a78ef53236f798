"""Words from outside, such as names of files and classes, made harmless where they are shown."""

import unicodedata


def printable(text: str) -> str:
    """The text with control characters, marks of direction and bytes that are not UTF-8 written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        one
        if one.isprintable() or unicodedata.category(one) == "Zs"
        else one.encode("unicode_escape", "surrogatepass").decode()
        for one in text
    )


def csv_cell(value: object) -> object:
    """A cell of a CSV file; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
