"""Numbers in words."""


def clock(seconds: float) -> str:
    """1:02:03, or 2 d 3 h for long times."""
    if seconds >= 48 * 3600:
        return f"{int(seconds // 86400)} d {int(seconds % 86400 // 3600)} h"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def score(value: float) -> str:
    """As the paper prints: whole from 20 on, one decimal below; far out, with an exponent."""
    if abs(value) >= 1e6:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.1f}"


def difference(value: float, low: float, high: float) -> str:
    """+12 [-3, +27]: all with the digits that the interval's width leaves."""
    digits = 0 if high - low >= 20 else 1 if high - low >= 2 else 2
    return "{} [{}, {}]".format(*(score(x) if abs(x) >= 1e6 else f"{x:+.{digits}f}" for x in (value, low, high)))


def steps(count: int) -> str:
    """1e6, 2e7; 123,456 where that would round."""
    short = f"{count:.0e}".replace("e+0", "e").replace("e+", "e")
    return short if float(short) == count else f"{count:,}"


def size(count: int) -> str:
    """Bytes: 34 kB, 1.2 MB."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def age(seconds: float) -> str:
    """12 s, 5 min, 3 h, 2 d."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
