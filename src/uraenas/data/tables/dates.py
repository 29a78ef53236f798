"""Whether texts are dates or times, which a network would take for so many names."""

import re
from collections.abc import Iterable

# A whole one with a year of four digits: one of them is enough.
WHOLE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([ T].*)?")
MOST = 0.9  # of different values; of what may be anything else, too, a column of dates has so many

DAY, MONTH = r"(0?[1-9]|[12]\d|3[01])", r"(0?[1-9]|1[0-2])"
YEAR = r"(19|20)\d\d"
NAMED = (
    r"(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?"
    r"|dec(ember)?)\.?"
)
CLOCK = r"([01]?\d|2[0-4])(:[0-5]\d){1,2}([.,]\d+)?"
HALF = r" ?[ap]\.?m\.?"  # of a day
AFTER = rf"([ T,]+({CLOCK})({HALF})?)?"
WEEKDAY = r"((mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?\.?,? )?"
SHORT = (
    rf"{DAY}[-/.]{DAY}[-/.]\d\d{AFTER}",  # 3/5/20
    rf"{YEAR}[-/.](0[1-9]|1[0-2])",  # 2020-03
    rf"{MONTH}[-/]{YEAR}",  # 03/2020
    rf"{WEEKDAY}{DAY}(st|nd|rd|th)?[-. ]*{NAMED}([-., ]+\d{{2,4}})?{AFTER}",  # 5 Mar 2020
    rf"{WEEKDAY}{NAMED}[-. ]*{DAY}(st|nd|rd|th)?(,? +\d{{2,4}})?{AFTER}",  # Mar 5, 2020
    rf"{NAMED}[-./, ]+{YEAR}|{YEAR}[-./, ]+{NAMED}",  # March 2020
    r"\d{1,2}[-. ]+[^\W\d]{3,9}[-., ]+\d{4}",  # 5 März 2020
    rf"{CLOCK}({HALF})?|\d{{1,2}}{HALF}",  # 12:00
)
MAY_BE_DATE = re.compile("|".join(f"({one})" for one in SHORT), re.IGNORECASE)
RATIO = re.compile(r"\d+:[1-9]\d")  # 16:10 and 21:10; of times some are on the hour, or soon after
SEASON = re.compile(r"(\d\d)(\d\d)-(\d\d)")


def date_among(texts: Iterable[str]) -> str | None:
    """The first date or time of a column of texts that is one of dates; empty texts are missing values."""
    different = [text for text in dict.fromkeys(texts) if text]
    for text in different:
        if WHOLE.fullmatch(text):
            return text
    found = [text for text in different if MAY_BE_DATE.fullmatch(text)]
    if not found or len(found) < MOST * len(different):
        return None
    if all(map(RATIO.fullmatch, found)) or all(map(_is_season, found)):
        return None
    return found[0]


def _is_season(text: str) -> bool:
    """Whether a text is two years one after the other, such as 2009-10."""
    years = SEASON.fullmatch(text)
    return years is not None and int(years[3]) == (int(years[2]) + 1) % 100
